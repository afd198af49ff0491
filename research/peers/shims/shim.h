/* What every shim gives for a lock NAME: init, acquire and release, each with the lock's storage and, where the
 * algorithm wants one, a node of the acquisition. Both are aligned to a cache line; the lock is zeroed before init, the
 * node is not. */
#ifndef CONTEND_PEERS_SHIM_H
#define CONTEND_PEERS_SHIM_H

#ifdef __cplusplus
#define SHIM extern "C"
#define SHIM_ASSERT static_assert
#else
#define SHIM
#define SHIM_ASSERT _Static_assert
#endif

/* As in research/peers/src/foreign.rs. */
enum { LOCK_BYTES = 128, NODE_BYTES = 128 };

#define SHIM_FITS(TYPE, BYTES) SHIM_ASSERT(sizeof(TYPE) <= (BYTES), "the storage is too small")

#define SHIM_LOCK(NAME, TYPE, INIT, ACQUIRE, RELEASE)                                                                  \
  SHIM_FITS(TYPE, LOCK_BYTES);                                                                                         \
  SHIM void contend_peer_##NAME##_init(void *lock) { TYPE *l = (TYPE *)lock; (void)l; INIT; }                          \
  SHIM void contend_peer_##NAME##_acquire(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)node; ACQUIRE; }     \
  SHIM void contend_peer_##NAME##_release(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)l; (void)node; RELEASE; }

#define SHIM_SHARED(NAME, TYPE, ACQUIRE, RELEASE)                                                                      \
  SHIM void contend_peer_##NAME##_acquire_shared(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)node; ACQUIRE; } \
  SHIM void contend_peer_##NAME##_release_shared(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)l; (void)node; RELEASE; }

#endif
