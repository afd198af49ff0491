/* Concurrency Kit's locks. */
#include <ck_pflock.h>
#include <ck_rwlock.h>
#include <ck_spinlock.h>
#include <stdlib.h>

#include "shim.h"

SHIM_LOCK(ck_fas, ck_spinlock_fas_t, ck_spinlock_fas_init(l), ck_spinlock_fas_lock(l), ck_spinlock_fas_unlock(l))
SHIM_LOCK(ck_cas, ck_spinlock_cas_t, ck_spinlock_cas_init(l), ck_spinlock_cas_lock(l), ck_spinlock_cas_unlock(l))
SHIM_LOCK(ck_ticket, ck_spinlock_ticket_t, ck_spinlock_ticket_init(l), ck_spinlock_ticket_lock(l),
          ck_spinlock_ticket_unlock(l))

SHIM_FITS(ck_spinlock_mcs_context_t, NODE_BYTES);
SHIM_LOCK(ck_mcs, ck_spinlock_mcs_t, ck_spinlock_mcs_init(l),
          ck_spinlock_mcs_lock(l, (ck_spinlock_mcs_context_t *)node),
          ck_spinlock_mcs_unlock(l, (ck_spinlock_mcs_context_t *)node))

/* A CLH node goes from thread to thread, so each thread keeps the one that it has at the moment. It is not freed
 * at the thread's end: its successor may still look at it. */
static _Thread_local ck_spinlock_clh_t *clh_node;

static ck_spinlock_clh_t *fresh_clh_node(void) {
  ck_spinlock_clh_t *node = aligned_alloc(64, 64);
  if (node == NULL) abort();
  return node;
}

static void clh_acquire(ck_spinlock_clh_t **lock) {
  if (clh_node == NULL) clh_node = fresh_clh_node();
  ck_spinlock_clh_lock(lock, clh_node);
}

SHIM_FITS(ck_spinlock_clh_t, 64);
SHIM_LOCK(ck_clh, ck_spinlock_clh_t *, ck_spinlock_clh_init(l, fresh_clh_node()), clh_acquire(l),
          ck_spinlock_clh_unlock(&clh_node))

SHIM_LOCK(ck_rwlock, ck_rwlock_t, ck_rwlock_init(l), ck_rwlock_write_lock(l), ck_rwlock_write_unlock(l))
SHIM_SHARED(ck_rwlock, ck_rwlock_t, ck_rwlock_read_lock(l), ck_rwlock_read_unlock(l))
SHIM_LOCK(ck_pflock, ck_pflock_t, ck_pflock_init(l), ck_pflock_write_lock(l), ck_pflock_write_unlock(l))
SHIM_SHARED(ck_pflock, ck_pflock_t, ck_pflock_read_lock(l), ck_pflock_read_unlock(l))
