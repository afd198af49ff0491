/* What every shim gives for a lock NAME: its size, init, acquire and release, the last three with the lock's storage and,
 * where the algorithm wants one, a node of the acquisition. The lock has whole words of its own, zeroed before init, and what
 * it guards follows it; the node is aligned to a cache line, and not zeroed. */
#ifndef CONTEND_PEERS_SHIM_H
#define CONTEND_PEERS_SHIM_H

#ifdef __cplusplus
#define SHIM extern "C"
#define SHIM_ASSERT static_assert
#define SHIM_ALIGN alignof
#else
#define SHIM
#define SHIM_ASSERT _Static_assert
#define SHIM_ALIGN _Alignof
#endif

/* As in research/peers/src/foreign.rs. */
enum { NODE_BYTES = 128, WORD_BYTES = 8 };

#define SHIM_FITS(TYPE, BYTES) SHIM_ASSERT(sizeof(TYPE) <= (BYTES), "the storage is too small")

#define SHIM_LOCK(NAME, TYPE, INIT, ACQUIRE, RELEASE)                                                                  \
  SHIM_ASSERT(SHIM_ALIGN(TYPE) <= WORD_BYTES, "words are not aligned enough");                                         \
  SHIM unsigned long contend_peer_##NAME##_words(void) { return (sizeof(TYPE) + WORD_BYTES - 1) / WORD_BYTES; }        \
  SHIM void contend_peer_##NAME##_init(void *lock) { TYPE *l = (TYPE *)lock; (void)l; INIT; }                          \
  SHIM void contend_peer_##NAME##_acquire(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)node; ACQUIRE; }     \
  SHIM void contend_peer_##NAME##_release(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)l; (void)node; RELEASE; }

#define SHIM_SHARED(NAME, TYPE, ACQUIRE, RELEASE)                                                                      \
  SHIM void contend_peer_##NAME##_acquire_shared(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)node; ACQUIRE; } \
  SHIM void contend_peer_##NAME##_release_shared(void *lock, void *node) { TYPE *l = (TYPE *)lock; (void)l; (void)node; RELEASE; }

#endif
