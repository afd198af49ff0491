/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What stands between marks is made from the catalogue of locks by
   `CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers`; the rest is written here. */

#ifndef CONTEND_H
#define CONTEND_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* In C this header needs C11 or later, for alignment and struct timespec.

   A lock whose bytes are all zero is free: static locks need no initialiser, others take CONTEND_INIT. There is
   nothing to destroy. A lock must not be copied while it is in use. One whose type is CONTEND_LINE_ALIGNED lies at a multiple of
   64 bytes: in C its memory comes from aligned_alloc, since malloc's may not be aligned so.

   Functions give 0 or an error number: EBUSY from a try, ETIMEDOUT at a deadline, EINVAL for a time that is none.
   `timed` takes a time of CLOCK_REALTIME; `clock` names CLOCK_REALTIME (0) or CLOCK_MONOTONIC (1).
   Any thread may unlock, but for contend_rt, and contend_ww when it is locked in a context. `rdlock_again` is for a thread that
   reads already: no waiting writer keeps it out. `unlock` of a reader-writer lock ends whichever hold the caller has; `wrunlock`
   and `rdunlock` save it the check. `downgrade` makes a reader of the writer, with no other thread writing in between. */

#ifdef __cplusplus
#define CONTEND_INIT {}
#define CONTEND_LINE_ALIGNED alignas(64)
extern "C" {
#else
#define CONTEND_INIT {{0}}
#define CONTEND_LINE_ALIGNED _Alignas(64)
#endif

/* A wait of a spin lock spins for so many pauses, then yields, then sleeps. UINT_MAX spins for ever: only for programs that
   have a core for every thread. These sleep by themselves, whatever the bound is: adaptive, futex, rw, kernel_mutex, tp_futex, rwsem
   and its variants, glibc's locks but for glibc_spin, rt, ww, condvar, semaphore, barrier, once and wait_table. An elided lock waits
   as the lock that it elides. */
void contend_set_spin_bound(unsigned int pauses);

/* Locks, from the catalogue: */

/* == Start here == */

/* adaptive: the lock to start with: backs off while the lock is hot, spins in a queue, then sleeps.
   composed of futex, rw and osq; Linux mutex since 3.10. Fairness: of those that sleep one enters in each ms, ahead of newcomers. */
typedef struct contend_adaptive {
    uint64_t contend_private[2];
} contend_adaptive_t;
int contend_adaptive_wrlock(contend_adaptive_t *lock);
int contend_adaptive_trywrlock(contend_adaptive_t *lock);
int contend_adaptive_timedwrlock(contend_adaptive_t *lock, const struct timespec *at);
int contend_adaptive_clockwrlock(contend_adaptive_t *lock, int clock, const struct timespec *at);
int contend_adaptive_wrunlock(contend_adaptive_t *lock);
int contend_adaptive_rdlock(contend_adaptive_t *lock);
int contend_adaptive_tryrdlock(contend_adaptive_t *lock);
int contend_adaptive_timedrdlock(contend_adaptive_t *lock, const struct timespec *at);
int contend_adaptive_clockrdlock(contend_adaptive_t *lock, int clock, const struct timespec *at);
int contend_adaptive_rdunlock(contend_adaptive_t *lock);
int contend_adaptive_rdlock_again(contend_adaptive_t *lock);
int contend_adaptive_unlock(contend_adaptive_t *lock);
int contend_adaptive_downgrade(contend_adaptive_t *lock);

/* futex: a mutex that backs off while the lock is hot, then sleeps.
   Drepper 2011; Go sync.Mutex 2016. Fairness: of those that sleep one enters in each ms, ahead of newcomers. */
typedef struct contend_futex {
    uint32_t contend_private[1];
} contend_futex_t;
int contend_futex_lock(contend_futex_t *lock);
int contend_futex_trylock(contend_futex_t *lock);
int contend_futex_timedlock(contend_futex_t *lock, const struct timespec *at);
int contend_futex_clocklock(contend_futex_t *lock, int clock, const struct timespec *at);
int contend_futex_unlock(contend_futex_t *lock);

/* rw: a reader-writer lock that sleeps; fair to writers, lets a reader read again.
   Courtois, Heymans and Parnas 1971; the word of futex. Fairness: no new reader passes a waiting writer; of those that sleep one enters in each ms, ahead of newcomers. */
typedef struct contend_rw {
    uint32_t contend_private[1];
} contend_rw_t;
int contend_rw_wrlock(contend_rw_t *lock);
int contend_rw_trywrlock(contend_rw_t *lock);
int contend_rw_timedwrlock(contend_rw_t *lock, const struct timespec *at);
int contend_rw_clockwrlock(contend_rw_t *lock, int clock, const struct timespec *at);
int contend_rw_wrunlock(contend_rw_t *lock);
int contend_rw_rdlock(contend_rw_t *lock);
int contend_rw_tryrdlock(contend_rw_t *lock);
int contend_rw_timedrdlock(contend_rw_t *lock, const struct timespec *at);
int contend_rw_clockrdlock(contend_rw_t *lock, int clock, const struct timespec *at);
int contend_rw_rdunlock(contend_rw_t *lock);
int contend_rw_rdlock_again(contend_rw_t *lock);
int contend_rw_unlock(contend_rw_t *lock);
int contend_rw_downgrade(contend_rw_t *lock);

/* == Spin locks without a queue == */

/* ttas_backoff: read, back off twice as long after each failure, swap when free.
   Anderson 1990. Fairness: none; late comers are favoured. */
typedef struct contend_ttas_backoff {
    uint32_t contend_private[1];
} contend_ttas_backoff_t;
int contend_ttas_backoff_lock(contend_ttas_backoff_t *lock);
int contend_ttas_backoff_trylock(contend_ttas_backoff_t *lock);
int contend_ttas_backoff_timedlock(contend_ttas_backoff_t *lock, const struct timespec *at);
int contend_ttas_backoff_clocklock(contend_ttas_backoff_t *lock, int clock, const struct timespec *at);
int contend_ttas_backoff_unlock(contend_ttas_backoff_t *lock);

/* ticket_proportional: a ticket lock whose waiters back off in proportion to their distance.
   Mellor-Crummey and Scott 1991. Fairness: first in, first out. */
typedef struct contend_ticket_proportional {
    uint64_t contend_private[1];
} contend_ticket_proportional_t;
int contend_ticket_proportional_lock(contend_ticket_proportional_t *lock);
int contend_ticket_proportional_trylock(contend_ticket_proportional_t *lock);
int contend_ticket_proportional_unlock(contend_ticket_proportional_t *lock);

/* lockref: a lock with a reference count that is changed without it while it is free.
   Linux 3.12. Fairness: none. */
typedef struct contend_lockref {
    uint64_t contend_private[1];
} contend_lockref_t;
int contend_lockref_lock(contend_lockref_t *lock);
int contend_lockref_trylock(contend_lockref_t *lock);
int contend_lockref_timedlock(contend_lockref_t *lock, const struct timespec *at);
int contend_lockref_clocklock(contend_lockref_t *lock, int clock, const struct timespec *at);
int contend_lockref_unlock(contend_lockref_t *lock);

/* == Spin locks whose waiters queue up == */

/* mcs: a queue of nodes; every waiter watches its own.
   Mellor-Crummey and Scott 1991. Fairness: first in, first out. */
typedef struct contend_mcs {
    uint64_t contend_private[2];
} contend_mcs_t;
int contend_mcs_lock(contend_mcs_t *lock);
int contend_mcs_trylock(contend_mcs_t *lock);
int contend_mcs_unlock(contend_mcs_t *lock);

/* mcs_tp: MCS whose releases pass over waiters that do not run.
   He, Scherer and Scott 2005. Fairness: first in, first out among those who run and stay. */
typedef struct contend_mcs_tp {
    uint64_t contend_private[2];
} contend_mcs_tp_t;
int contend_mcs_tp_lock(contend_mcs_tp_t *lock);
int contend_mcs_tp_trylock(contend_mcs_tp_t *lock);
int contend_mcs_tp_timedlock(contend_mcs_tp_t *lock, const struct timespec *at);
int contend_mcs_tp_clocklock(contend_mcs_tp_t *lock, int clock, const struct timespec *at);
int contend_mcs_tp_unlock(contend_mcs_tp_t *lock);

/* k42: MCS that needs no node at release.
   Auslander et al. 2003. Fairness: first in, first out. */
typedef struct contend_k42 {
    uint64_t contend_private[2];
} contend_k42_t;
int contend_k42_lock(contend_k42_t *lock);
int contend_k42_trylock(contend_k42_t *lock);
int contend_k42_unlock(contend_k42_t *lock);

/* clh: a queue of nodes; every waiter watches its predecessor's.
   Craig 1993. Fairness: first in, first out. */
typedef struct contend_clh {
    uint64_t contend_private[2];
} contend_clh_t;
int contend_clh_lock(contend_clh_t *lock);
int contend_clh_trylock(contend_clh_t *lock);
int contend_clh_unlock(contend_clh_t *lock);

/* clh_timed: CLH whose waiters can give up.
   Scott and Scherer 2001; Scott 2002. Fairness: first in, first out among those who stay. */
typedef struct contend_clh_timed {
    uint64_t contend_private[2];
} contend_clh_timed_t;
int contend_clh_timed_lock(contend_clh_timed_t *lock);
int contend_clh_timed_trylock(contend_clh_timed_t *lock);
int contend_clh_timed_timedlock(contend_clh_timed_t *lock, const struct timespec *at);
int contend_clh_timed_clocklock(contend_clh_timed_t *lock, int clock, const struct timespec *at);
int contend_clh_timed_unlock(contend_clh_timed_t *lock);

/* osq: MCS linked both ways, whose waiters can leave from anywhere.
   Linux 3.15; Scott and Scherer 2001. Fairness: first in, first out among those who stay; none past the pool. */
typedef struct contend_osq {
    uint64_t contend_private[1];
} contend_osq_t;
int contend_osq_lock(contend_osq_t *lock);
int contend_osq_trylock(contend_osq_t *lock);
int contend_osq_timedlock(contend_osq_t *lock, const struct timespec *at);
int contend_osq_clocklock(contend_osq_t *lock, int clock, const struct timespec *at);
int contend_osq_unlock(contend_osq_t *lock);

/* qspin: 4 bytes: one pending waiter on the word, an MCS queue behind it.
   Linux 4.2. Fairness: first in, first out but for a newcomer that finds the word free; none past the pool. */
typedef struct contend_qspin {
    uint32_t contend_private[1];
} contend_qspin_t;
int contend_qspin_lock(contend_qspin_t *lock);
int contend_qspin_trylock(contend_qspin_t *lock);
int contend_qspin_unlock(contend_qspin_t *lock);

/* == Reader-writer locks, as Linux has them == */

/* rw_queued: a reader-writer spin lock whose waiters queue up at a ticket lock.
   Linux 3.16, 2017. Fairness: first in, first out; up to 32,768 waiters. */
typedef struct contend_rw_queued {
    uint64_t contend_private[1];
} contend_rw_queued_t;
int contend_rw_queued_wrlock(contend_rw_queued_t *lock);
int contend_rw_queued_trywrlock(contend_rw_queued_t *lock);
int contend_rw_queued_wrunlock(contend_rw_queued_t *lock);
int contend_rw_queued_rdlock(contend_rw_queued_t *lock);
int contend_rw_queued_tryrdlock(contend_rw_queued_t *lock);
int contend_rw_queued_rdunlock(contend_rw_queued_t *lock);
int contend_rw_queued_rdlock_again(contend_rw_queued_t *lock);
int contend_rw_queued_unlock(contend_rw_queued_t *lock);
int contend_rw_queued_downgrade(contend_rw_queued_t *lock);

/* rwsem: a reader-writer lock whose writers spin in a queue while the owner runs, then sleep; handed over to a writer after 4 ms.
   Long 2019; Linux 6.1. Fairness: none, but the first waiter is bypassed for at most 4 ms, or until it is woken next. */
typedef struct contend_rwsem {
    uint64_t contend_private[3];
} contend_rwsem_t;
int contend_rwsem_wrlock(contend_rwsem_t *lock);
int contend_rwsem_trywrlock(contend_rwsem_t *lock);
int contend_rwsem_timedwrlock(contend_rwsem_t *lock, const struct timespec *at);
int contend_rwsem_clockwrlock(contend_rwsem_t *lock, int clock, const struct timespec *at);
int contend_rwsem_wrunlock(contend_rwsem_t *lock);
int contend_rwsem_rdlock(contend_rwsem_t *lock);
int contend_rwsem_tryrdlock(contend_rwsem_t *lock);
int contend_rwsem_timedrdlock(contend_rwsem_t *lock, const struct timespec *at);
int contend_rwsem_clockrdlock(contend_rwsem_t *lock, int clock, const struct timespec *at);
int contend_rwsem_rdunlock(contend_rwsem_t *lock);
int contend_rwsem_rdlock_again(contend_rwsem_t *lock);
int contend_rwsem_unlock(contend_rwsem_t *lock);
int contend_rwsem_downgrade(contend_rwsem_t *lock);

/* == Locks that sleep, as Linux has them == */

/* kernel_mutex: spins in a queue while the owner runs, then sleeps; handed over to a waiter that was woken and found it taken.
   Linux 3.16, 4.10. Fairness: none, but the first of those that sleep is bypassed only until it has been woken once. */
typedef struct contend_kernel_mutex {
    uint64_t contend_private[3];
} contend_kernel_mutex_t;
int contend_kernel_mutex_lock(contend_kernel_mutex_t *lock);
int contend_kernel_mutex_trylock(contend_kernel_mutex_t *lock);
int contend_kernel_mutex_timedlock(contend_kernel_mutex_t *lock, const struct timespec *at);
int contend_kernel_mutex_clocklock(contend_kernel_mutex_t *lock, int clock, const struct timespec *at);
int contend_kernel_mutex_unlock(contend_kernel_mutex_t *lock);

/* tp_futex: taken by the thread that finds it free; the first waiter spins while the owner runs, then sleeps, and is handed the lock after 5 ms.
   Long 2016-17. Fairness: none, but the first waiter is bypassed for at most 5 ms, or until it is woken next. */
typedef struct contend_tp_futex {
    uint32_t contend_private[3];
} contend_tp_futex_t;
int contend_tp_futex_lock(contend_tp_futex_t *lock);
int contend_tp_futex_trylock(contend_tp_futex_t *lock);
int contend_tp_futex_timedlock(contend_tp_futex_t *lock, const struct timespec *at);
int contend_tp_futex_clocklock(contend_tp_futex_t *lock, int clock, const struct timespec *at);
int contend_tp_futex_unlock(contend_tp_futex_t *lock);

/* == History: what others have taken the place of == */

/* tas: swap until the word was free; every attempt takes the line.
   Anderson 1990. Fairness: none. */
typedef struct contend_tas {
    uint32_t contend_private[1];
} contend_tas_t;
int contend_tas_lock(contend_tas_t *lock);
int contend_tas_trylock(contend_tas_t *lock);
int contend_tas_timedlock(contend_tas_t *lock, const struct timespec *at);
int contend_tas_clocklock(contend_tas_t *lock, int clock, const struct timespec *at);
int contend_tas_unlock(contend_tas_t *lock);

/* tas_backoff: swap at once, back off twice as long after each failure.
   Anderson 1990. Fairness: none; late comers are favoured. */
typedef struct contend_tas_backoff {
    uint32_t contend_private[1];
} contend_tas_backoff_t;
int contend_tas_backoff_lock(contend_tas_backoff_t *lock);
int contend_tas_backoff_trylock(contend_tas_backoff_t *lock);
int contend_tas_backoff_timedlock(contend_tas_backoff_t *lock, const struct timespec *at);
int contend_tas_backoff_clocklock(contend_tas_backoff_t *lock, int clock, const struct timespec *at);
int contend_tas_backoff_unlock(contend_tas_backoff_t *lock);

/* ttas: read until the word is free, then swap; all waiters rush at a release.
   Anderson 1990. Fairness: none. */
typedef struct contend_ttas {
    uint32_t contend_private[1];
} contend_ttas_t;
int contend_ttas_lock(contend_ttas_t *lock);
int contend_ttas_trylock(contend_ttas_t *lock);
int contend_ttas_timedlock(contend_ttas_t *lock, const struct timespec *at);
int contend_ttas_clocklock(contend_ttas_t *lock, int clock, const struct timespec *at);
int contend_ttas_unlock(contend_ttas_t *lock);

/* ticket: draw a number, wait until it is served; all waiters watch one word.
   Mellor-Crummey and Scott 1991; Linux 2.6.25 to 4.1. Fairness: first in, first out. */
typedef struct contend_ticket {
    uint64_t contend_private[1];
} contend_ticket_t;
int contend_ticket_lock(contend_ticket_t *lock);
int contend_ticket_trylock(contend_ticket_t *lock);
int contend_ticket_unlock(contend_ticket_t *lock);

/* ticket4: the ticket lock with 16-bit numbers in one word.
   Linux 2.6.25 to 4.1. Fairness: first in, first out; up to 32,768 waiters. */
typedef struct contend_ticket4 {
    uint32_t contend_private[1];
} contend_ticket4_t;
int contend_ticket4_lock(contend_ticket4_t *lock);
int contend_ticket4_trylock(contend_ticket4_t *lock);
int contend_ticket4_unlock(contend_ticket4_t *lock);

/* ticket_selftuning: a ticket lock whose waiters learn how long to back off.
   van Riel 2012-13. Fairness: first in, first out. */
typedef struct contend_ticket_selftuning {
    uint64_t contend_private[1];
} contend_ticket_selftuning_t;
int contend_ticket_selftuning_lock(contend_ticket_selftuning_t *lock);
int contend_ticket_selftuning_trylock(contend_ticket_selftuning_t *lock);
int contend_ticket_selftuning_unlock(contend_ticket_selftuning_t *lock);

/* anderson: an array of slots; every waiter watches its own.
   Anderson 1990. Fairness: first in, first out. */
typedef struct contend_anderson {
    CONTEND_LINE_ALIGNED uint64_t contend_private[536];
} contend_anderson_t;
int contend_anderson_lock(contend_anderson_t *lock);
int contend_anderson_trylock(contend_anderson_t *lock);
int contend_anderson_unlock(contend_anderson_t *lock);

/* rw_naive: a reader-writer spin lock on one word.
   Linux before 3.16. Fairness: none; readers keep writers out. */
typedef struct contend_rw_naive {
    uint32_t contend_private[1];
} contend_rw_naive_t;
int contend_rw_naive_wrlock(contend_rw_naive_t *lock);
int contend_rw_naive_trywrlock(contend_rw_naive_t *lock);
int contend_rw_naive_timedwrlock(contend_rw_naive_t *lock, const struct timespec *at);
int contend_rw_naive_clockwrlock(contend_rw_naive_t *lock, int clock, const struct timespec *at);
int contend_rw_naive_wrunlock(contend_rw_naive_t *lock);
int contend_rw_naive_rdlock(contend_rw_naive_t *lock);
int contend_rw_naive_tryrdlock(contend_rw_naive_t *lock);
int contend_rw_naive_timedrdlock(contend_rw_naive_t *lock, const struct timespec *at);
int contend_rw_naive_clockrdlock(contend_rw_naive_t *lock, int clock, const struct timespec *at);
int contend_rw_naive_rdunlock(contend_rw_naive_t *lock);
int contend_rw_naive_rdlock_again(contend_rw_naive_t *lock);
int contend_rw_naive_unlock(contend_rw_naive_t *lock);
int contend_rw_naive_downgrade(contend_rw_naive_t *lock);

/* rwsem_no_spin: rwsem as it was before writers spun: the thread that finds it free takes it, all others sleep.
   Linux 3.10. Fairness: none, but the first waiter is bypassed for at most 4 ms, or until it is woken next. */
typedef struct contend_rwsem_no_spin {
    uint64_t contend_private[3];
} contend_rwsem_no_spin_t;
int contend_rwsem_no_spin_wrlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_trywrlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_timedwrlock(contend_rwsem_no_spin_t *lock, const struct timespec *at);
int contend_rwsem_no_spin_clockwrlock(contend_rwsem_no_spin_t *lock, int clock, const struct timespec *at);
int contend_rwsem_no_spin_wrunlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_rdlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_tryrdlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_timedrdlock(contend_rwsem_no_spin_t *lock, const struct timespec *at);
int contend_rwsem_no_spin_clockrdlock(contend_rwsem_no_spin_t *lock, int clock, const struct timespec *at);
int contend_rwsem_no_spin_rdunlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_rdlock_again(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_unlock(contend_rwsem_no_spin_t *lock);
int contend_rwsem_no_spin_downgrade(contend_rwsem_no_spin_t *lock);

/* rwsem_fifo: rwsem as it was before newcomers could steal it: handed over to sleepers in the order of arrival.
   Linux before 3.10. Fairness: first in, first out; readers in a row enter together. */
typedef struct contend_rwsem_fifo {
    uint64_t contend_private[3];
} contend_rwsem_fifo_t;
int contend_rwsem_fifo_wrlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_trywrlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_timedwrlock(contend_rwsem_fifo_t *lock, const struct timespec *at);
int contend_rwsem_fifo_clockwrlock(contend_rwsem_fifo_t *lock, int clock, const struct timespec *at);
int contend_rwsem_fifo_wrunlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_rdlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_tryrdlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_timedrdlock(contend_rwsem_fifo_t *lock, const struct timespec *at);
int contend_rwsem_fifo_clockrdlock(contend_rwsem_fifo_t *lock, int clock, const struct timespec *at);
int contend_rwsem_fifo_rdunlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_rdlock_again(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_unlock(contend_rwsem_fifo_t *lock);
int contend_rwsem_fifo_downgrade(contend_rwsem_fifo_t *lock);

/* == The C library's algorithms, for comparison == */

/* glibc_mutex: glibc's default mutex: sleeps at once while the lock is held.
   Drepper 2011; glibc 2.36. Fairness: none. */
typedef struct contend_glibc_mutex {
    uint32_t contend_private[1];
} contend_glibc_mutex_t;
int contend_glibc_mutex_lock(contend_glibc_mutex_t *lock);
int contend_glibc_mutex_trylock(contend_glibc_mutex_t *lock);
int contend_glibc_mutex_timedlock(contend_glibc_mutex_t *lock, const struct timespec *at);
int contend_glibc_mutex_clocklock(contend_glibc_mutex_t *lock, int clock, const struct timespec *at);
int contend_glibc_mutex_unlock(contend_glibc_mutex_t *lock);

/* glibc_adaptive: glibc's adaptive mutex: polls for up to 100 pauses, then sleeps.
   glibc 2.36. Fairness: none. */
typedef struct contend_glibc_adaptive {
    uint64_t contend_private[1];
} contend_glibc_adaptive_t;
int contend_glibc_adaptive_lock(contend_glibc_adaptive_t *lock);
int contend_glibc_adaptive_trylock(contend_glibc_adaptive_t *lock);
int contend_glibc_adaptive_timedlock(contend_glibc_adaptive_t *lock, const struct timespec *at);
int contend_glibc_adaptive_clocklock(contend_glibc_adaptive_t *lock, int clock, const struct timespec *at);
int contend_glibc_adaptive_unlock(contend_glibc_adaptive_t *lock);

/* glibc_spin: glibc's spin lock: adds when it has seen the lock free; all waiters rush at a release.
   glibc 2.36 on x86-64. Fairness: none. */
typedef struct contend_glibc_spin {
    uint32_t contend_private[1];
} contend_glibc_spin_t;
int contend_glibc_spin_lock(contend_glibc_spin_t *lock);
int contend_glibc_spin_trylock(contend_glibc_spin_t *lock);
int contend_glibc_spin_unlock(contend_glibc_spin_t *lock);

/* glibc_rwlock: glibc's reader-writer lock of the default kind.
   Riegel 2016; glibc 2.36. Fairness: none; readers keep writers out. */
typedef struct contend_glibc_rwlock {
    uint64_t contend_private[2];
} contend_glibc_rwlock_t;
int contend_glibc_rwlock_wrlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_trywrlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_timedwrlock(contend_glibc_rwlock_t *lock, const struct timespec *at);
int contend_glibc_rwlock_clockwrlock(contend_glibc_rwlock_t *lock, int clock, const struct timespec *at);
int contend_glibc_rwlock_wrunlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_rdlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_tryrdlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_timedrdlock(contend_glibc_rwlock_t *lock, const struct timespec *at);
int contend_glibc_rwlock_clockrdlock(contend_glibc_rwlock_t *lock, int clock, const struct timespec *at);
int contend_glibc_rwlock_rdunlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_rdlock_again(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_unlock(contend_glibc_rwlock_t *lock);
int contend_glibc_rwlock_downgrade(contend_glibc_rwlock_t *lock);

/* glibc_rwlock_writer: glibc's reader-writer lock whose writers hand over to waiting writers.
   Riegel 2016; glibc 2.36. Fairness: none; readers that overlap keep writers out, writers keep waiting readers out. */
typedef struct contend_glibc_rwlock_writer {
    uint64_t contend_private[2];
} contend_glibc_rwlock_writer_t;
int contend_glibc_rwlock_writer_wrlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_trywrlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_timedwrlock(contend_glibc_rwlock_writer_t *lock, const struct timespec *at);
int contend_glibc_rwlock_writer_clockwrlock(contend_glibc_rwlock_writer_t *lock, int clock, const struct timespec *at);
int contend_glibc_rwlock_writer_wrunlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_rdlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_tryrdlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_timedrdlock(contend_glibc_rwlock_writer_t *lock, const struct timespec *at);
int contend_glibc_rwlock_writer_clockrdlock(contend_glibc_rwlock_writer_t *lock, int clock, const struct timespec *at);
int contend_glibc_rwlock_writer_rdunlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_rdlock_again(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_unlock(contend_glibc_rwlock_writer_t *lock);
int contend_glibc_rwlock_writer_downgrade(contend_glibc_rwlock_writer_t *lock);

/* glibc_rwlock_nonrecursive: glibc's reader-writer lock whose new readers let waiting writers go first.
   Riegel 2016; glibc 2.36. Fairness: none; writers keep readers out. */
typedef struct contend_glibc_rwlock_nonrecursive {
    uint64_t contend_private[2];
} contend_glibc_rwlock_nonrecursive_t;
int contend_glibc_rwlock_nonrecursive_wrlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_trywrlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_timedwrlock(contend_glibc_rwlock_nonrecursive_t *lock, const struct timespec *at);
int contend_glibc_rwlock_nonrecursive_clockwrlock(contend_glibc_rwlock_nonrecursive_t *lock, int clock, const struct timespec *at);
int contend_glibc_rwlock_nonrecursive_wrunlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_rdlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_tryrdlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_timedrdlock(contend_glibc_rwlock_nonrecursive_t *lock, const struct timespec *at);
int contend_glibc_rwlock_nonrecursive_clockrdlock(contend_glibc_rwlock_nonrecursive_t *lock, int clock, const struct timespec *at);
int contend_glibc_rwlock_nonrecursive_rdunlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_rdlock_again(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_unlock(contend_glibc_rwlock_nonrecursive_t *lock);
int contend_glibc_rwlock_nonrecursive_downgrade(contend_glibc_rwlock_nonrecursive_t *lock);

/* == Elided: in transactions, where the processor has them == */

/* elided_tas: sections are transactions, and tas where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_tas {
    uint64_t contend_private[1];
} contend_elided_tas_t;
int contend_elided_tas_lock(contend_elided_tas_t *lock);
int contend_elided_tas_trylock(contend_elided_tas_t *lock);
int contend_elided_tas_timedlock(contend_elided_tas_t *lock, const struct timespec *at);
int contend_elided_tas_clocklock(contend_elided_tas_t *lock, int clock, const struct timespec *at);
int contend_elided_tas_unlock(contend_elided_tas_t *lock);

/* elided_ticket: sections are transactions, and ticket where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_ticket {
    uint32_t contend_private[3];
} contend_elided_ticket_t;
int contend_elided_ticket_lock(contend_elided_ticket_t *lock);
int contend_elided_ticket_trylock(contend_elided_ticket_t *lock);
int contend_elided_ticket_unlock(contend_elided_ticket_t *lock);

/* elided_mcs: sections are transactions, and mcs where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_mcs {
    uint64_t contend_private[3];
} contend_elided_mcs_t;
int contend_elided_mcs_lock(contend_elided_mcs_t *lock);
int contend_elided_mcs_trylock(contend_elided_mcs_t *lock);
int contend_elided_mcs_unlock(contend_elided_mcs_t *lock);

/* elided_glibc_mutex: sections are transactions, and glibc-mutex where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_glibc_mutex {
    uint64_t contend_private[1];
} contend_elided_glibc_mutex_t;
int contend_elided_glibc_mutex_lock(contend_elided_glibc_mutex_t *lock);
int contend_elided_glibc_mutex_trylock(contend_elided_glibc_mutex_t *lock);
int contend_elided_glibc_mutex_timedlock(contend_elided_glibc_mutex_t *lock, const struct timespec *at);
int contend_elided_glibc_mutex_clocklock(contend_elided_glibc_mutex_t *lock, int clock, const struct timespec *at);
int contend_elided_glibc_mutex_unlock(contend_elided_glibc_mutex_t *lock);

/* elided_futex: sections are transactions, and futex where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_futex {
    uint64_t contend_private[1];
} contend_elided_futex_t;
int contend_elided_futex_lock(contend_elided_futex_t *lock);
int contend_elided_futex_trylock(contend_elided_futex_t *lock);
int contend_elided_futex_timedlock(contend_elided_futex_t *lock, const struct timespec *at);
int contend_elided_futex_clocklock(contend_elided_futex_t *lock, int clock, const struct timespec *at);
int contend_elided_futex_unlock(contend_elided_futex_t *lock);

/* elided_adaptive: sections are transactions, and adaptive where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_adaptive {
    uint32_t contend_private[5];
} contend_elided_adaptive_t;
int contend_elided_adaptive_wrlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_trywrlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_timedwrlock(contend_elided_adaptive_t *lock, const struct timespec *at);
int contend_elided_adaptive_clockwrlock(contend_elided_adaptive_t *lock, int clock, const struct timespec *at);
int contend_elided_adaptive_wrunlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_rdlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_tryrdlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_timedrdlock(contend_elided_adaptive_t *lock, const struct timespec *at);
int contend_elided_adaptive_clockrdlock(contend_elided_adaptive_t *lock, int clock, const struct timespec *at);
int contend_elided_adaptive_rdunlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_rdlock_again(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_unlock(contend_elided_adaptive_t *lock);
int contend_elided_adaptive_downgrade(contend_elided_adaptive_t *lock);

/* elided_rw: sections are transactions, and rw where they abort; RetryThenSkip.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_rw {
    uint64_t contend_private[1];
} contend_elided_rw_t;
int contend_elided_rw_wrlock(contend_elided_rw_t *lock);
int contend_elided_rw_trywrlock(contend_elided_rw_t *lock);
int contend_elided_rw_timedwrlock(contend_elided_rw_t *lock, const struct timespec *at);
int contend_elided_rw_clockwrlock(contend_elided_rw_t *lock, int clock, const struct timespec *at);
int contend_elided_rw_wrunlock(contend_elided_rw_t *lock);
int contend_elided_rw_rdlock(contend_elided_rw_t *lock);
int contend_elided_rw_tryrdlock(contend_elided_rw_t *lock);
int contend_elided_rw_timedrdlock(contend_elided_rw_t *lock, const struct timespec *at);
int contend_elided_rw_clockrdlock(contend_elided_rw_t *lock, int clock, const struct timespec *at);
int contend_elided_rw_rdunlock(contend_elided_rw_t *lock);
int contend_elided_rw_rdlock_again(contend_elided_rw_t *lock);
int contend_elided_rw_unlock(contend_elided_rw_t *lock);
int contend_elided_rw_downgrade(contend_elided_rw_t *lock);

/* elided_when_free_ticket: sections are transactions, and ticket where they abort; RetryWhenFree.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_when_free_ticket {
    uint64_t contend_private[1];
} contend_elided_when_free_ticket_t;
int contend_elided_when_free_ticket_lock(contend_elided_when_free_ticket_t *lock);
int contend_elided_when_free_ticket_trylock(contend_elided_when_free_ticket_t *lock);
int contend_elided_when_free_ticket_unlock(contend_elided_when_free_ticket_t *lock);

/* elided_one_by_one_ticket: sections are transactions, and ticket where they abort; RetryOneByOne.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_one_by_one_ticket {
    CONTEND_LINE_ALIGNED uint64_t contend_private[16];
} contend_elided_one_by_one_ticket_t;
int contend_elided_one_by_one_ticket_lock(contend_elided_one_by_one_ticket_t *lock);
int contend_elided_one_by_one_ticket_trylock(contend_elided_one_by_one_ticket_t *lock);
int contend_elided_one_by_one_ticket_unlock(contend_elided_one_by_one_ticket_t *lock);

/* elided_less_often_ticket: sections are transactions, and ticket where they abort; RetryLessOften.
   Rajwar and Goodman 2001; glibc since 2.18. Fairness: none among transactions; that of the lock among those that acquire it. */
typedef struct contend_elided_less_often_ticket {
    uint32_t contend_private[3];
} contend_elided_less_often_ticket_t;
int contend_elided_less_often_ticket_lock(contend_elided_less_often_ticket_t *lock);
int contend_elided_less_often_ticket_trylock(contend_elided_less_often_ticket_t *lock);
int contend_elided_less_often_ticket_unlock(contend_elided_less_often_ticket_t *lock);

/* End of what is made. */

/* The reference count of lockref. While no thread holds the lock it is changed without it.
   get: takes a reference, gives the new count. get_not_zero, get_not_dead: take one if there is one, or the object is
   not dead; 1 if so. put_or_lock: drops a reference, 1; if it is the last, keeps it and locks, 0. put_not_last: drops
   a reference that is not the last; 1 if so. By the holder: mark_dead: no more references; add_locked: adds some. */
int contend_lockref_count(contend_lockref_t *lock);
int contend_lockref_get(contend_lockref_t *lock);
int contend_lockref_get_not_zero(contend_lockref_t *lock);
int contend_lockref_get_not_dead(contend_lockref_t *lock);
int contend_lockref_put_or_lock(contend_lockref_t *lock);
int contend_lockref_put_not_last(contend_lockref_t *lock);
int contend_lockref_mark_dead(contend_lockref_t *lock);
int contend_lockref_add_locked(contend_lockref_t *lock, int references);

/* rt: the owner runs with the highest priority of the threads that wait, by the kernel's priority-inheriting futexes. The thread that
   locked unlocks. EDEADLK: the caller would wait for itself, directly or by way of other threads, even if the wait of one of those
   would end at a deadline. ENOTRECOVERABLE: the owner has ended without unlocking; trylock gives EBUSY then, too. Sha,
   Rajkumar and Lehoczky 1990; Linux rt_mutex. */
typedef struct contend_rt {
    uint32_t contend_private[1];
} contend_rt_t;
int contend_rt_lock(contend_rt_t *lock);
int contend_rt_trylock(contend_rt_t *lock);
int contend_rt_timedlock(contend_rt_t *lock, const struct timespec *at);
int contend_rt_clocklock(contend_rt_t *lock, int clock, const struct timespec *at);
int contend_rt_unlock(contend_rt_t *lock);

/* mcs_queue: MCS whose nodes are the caller's. A node is passed to lock and unlock, and stays where it is between. */
typedef struct contend_mcs_node {
    uint64_t contend_private[2];
} contend_mcs_node_t;
typedef struct contend_mcs_queue {
    uint64_t contend_private[1];
} contend_mcs_queue_t;
int contend_mcs_queue_lock(contend_mcs_queue_t *lock, contend_mcs_node_t *node);
int contend_mcs_queue_trylock(contend_mcs_queue_t *lock, contend_mcs_node_t *node);
int contend_mcs_queue_unlock(contend_mcs_queue_t *lock, contend_mcs_node_t *node);

/* condvar: waits for what a lock guards, with any lock, in three steps: enter while the lock is held, unlock, sleep with what
   enter gave; then lock again and look at the condition, since a wait may end without a signal. All zero bits: no thread waits. destroy, before
   its memory is freed, waits until the threads that were signalled no longer use it. */
typedef struct contend_condvar {
    uint32_t contend_private[2];
} contend_condvar_t;
unsigned int contend_condvar_enter(contend_condvar_t *condvar);
int contend_condvar_sleep(contend_condvar_t *condvar, unsigned int number);
int contend_condvar_clocksleep(contend_condvar_t *condvar, unsigned int number, int clock, const struct timespec *at);
int contend_condvar_signal(contend_condvar_t *condvar);
int contend_condvar_broadcast(contend_condvar_t *condvar);
int contend_condvar_destroy(contend_condvar_t *condvar);

/* semaphore: made by CONTEND_SEMAPHORE_INIT(permits), fewer than 2^31. post gives EOVERFLOW when there would be 2^31 permits or more. */
typedef struct contend_semaphore {
    uint32_t contend_private[2];
} contend_semaphore_t;
#define CONTEND_SEMAPHORE_INIT(permits) {{0, (permits)}}
int contend_semaphore_wait(contend_semaphore_t *semaphore);
int contend_semaphore_trywait(contend_semaphore_t *semaphore);
int contend_semaphore_clockwait(contend_semaphore_t *semaphore, int clock, const struct timespec *at);
int contend_semaphore_post(contend_semaphore_t *semaphore, unsigned int permits);

/* barrier: made by CONTEND_BARRIER_INIT(threads), 65,535 at most. wait gives CONTEND_BARRIER_LEADER to one thread of each round, 0 to the others.
   Its memory may be freed when the wait of each thread has returned, and not before: the leader's returns while others still use it. */
typedef struct contend_barrier {
    uint32_t contend_private[2];
} contend_barrier_t;
#define CONTEND_BARRIER_INIT(threads) {{0, (threads)}}
#define CONTEND_BARRIER_LEADER (-1)
int contend_barrier_wait(contend_barrier_t *barrier);

/* once: calls what it is given, which must neither throw nor end its thread, the first time; who comes meanwhile waits until that is over. All zero bits: not yet. */
typedef struct contend_once {
    uint32_t contend_private[1];
} contend_once_t;
int contend_once_call(contend_once_t *once, void (*what)(void));

/* wait_table: threads sleep while a 32-bit word holds a value, as with a futex, until another has changed it and wakes them. Where
   no thread sleeps, a wake-up is no system call. The word is the program's own, aligned, and read and written as an atomic.
   new makes a table for so many threads, grow lets it become one for more while it is used; new gives NULL, grow ENOMEM, for more than
   4,194,304; where memory runs out, both end the program. free: no thread sleeps in the table, and none uses it again. A child of a
   fork makes its own table: the waiters of its parent stay in this one.
   wait may end without a wake-up: look at the word again. EAGAIN: it holds something else than expected. clockwait gives ETIMEDOUT at
   its deadline. wake wakes at most so many, those that came first, and gives how many; the word may be gone by then. */
typedef struct contend_wait_table contend_wait_table_t;
contend_wait_table_t *contend_wait_table_new(size_t threads);
int contend_wait_table_grow(contend_wait_table_t *table, size_t threads);
void contend_wait_table_free(contend_wait_table_t *table);
int contend_wait_table_wait(contend_wait_table_t *table, const void *word, uint32_t expected);
int contend_wait_table_clockwait(contend_wait_table_t *table, const void *word, uint32_t expected, int clock,
                                 const struct timespec *at);
unsigned int contend_wait_table_wake(contend_wait_table_t *table, const void *word, unsigned int most);

/* ww: Linux's wound/wait mutexes. A thread takes several of a class in any order, in a context: of two contexts that would wait for each
   other the younger one is refused. A class is made by CONTEND_WW_WAIT_DIE or CONTEND_WW_WOUND_WAIT, a mutex by CONTEND_WW_INIT(its class).
   lock gives EDEADLK when the context has to give way: it unlocks all that it holds, takes this mutex by lock_slow, and goes on;
   EALREADY when the context holds the mutex; EINVAL for a context of another class, or one that is done. lock_slow gives EINVAL while
   the context holds a mutex, and never EDEADLK. lock_all does all of it for a context that holds none, and then it holds all of them or,
   with EALREADY, since one is there twice, none. A NULL context is none: the mutex is like any other; lock_slow and lock_all
   give EINVAL then.
   A context is used, and what it holds unlocked, by the thread that made it. After done it takes no more, and it ends when it holds
   nothing; every context comes to that. Each transaction has a new context: one that is used again stays as old as it is, so that younger
   ones may be refused again and again.
   What refuses a context is what it holds itself. A thread that locks in a context, or by lock_all, while it holds a mutex of the class
   in another context or in none takes part in a deadlock as with any mutex.
   trylock never says EDEADLK: a context that holds a mutex and repeats trylock until it succeeds may keep an older one waiting for
   ever. */
typedef struct contend_ww_class {
    uint64_t contend_private[2];
} contend_ww_class_t;
typedef struct contend_ww_context {
    uint64_t contend_private[2];
} contend_ww_context_t;
typedef struct contend_ww {
    uint64_t contend_private[2];
    const contend_ww_class_t *contend_class;
} contend_ww_t;
#define CONTEND_WW_WAIT_DIE {{0, 0}}
#define CONTEND_WW_WOUND_WAIT {{0, 1}}
#define CONTEND_WW_INIT(its_class) {{0, 0}, (its_class)}
int contend_ww_context_init(contend_ww_context_t *context, contend_ww_class_t *its_class);
int contend_ww_context_done(contend_ww_context_t *context);
int contend_ww_lock(contend_ww_t *lock, contend_ww_context_t *context);
int contend_ww_lock_slow(contend_ww_t *lock, contend_ww_context_t *context);
int contend_ww_lock_all(contend_ww_t *const *locks, size_t count, contend_ww_context_t *context);
int contend_ww_trylock(contend_ww_t *lock, contend_ww_context_t *context);
int contend_ww_clocklock(contend_ww_t *lock, contend_ww_context_t *context, int clock, const struct timespec *at);
int contend_ww_unlock(contend_ww_t *lock);

/* Names of before, from the catalogue: */
#define contend_best_wrlock contend_adaptive_wrlock
#define contend_best_trywrlock contend_adaptive_trywrlock
#define contend_best_timedwrlock contend_adaptive_timedwrlock
#define contend_best_clockwrlock contend_adaptive_clockwrlock
#define contend_best_wrunlock contend_adaptive_wrunlock
#define contend_best_rdlock contend_adaptive_rdlock
#define contend_best_tryrdlock contend_adaptive_tryrdlock
#define contend_best_timedrdlock contend_adaptive_timedrdlock
#define contend_best_clockrdlock contend_adaptive_clockrdlock
#define contend_best_rdunlock contend_adaptive_rdunlock
#define contend_best_rdlock_again contend_adaptive_rdlock_again
#define contend_best_unlock contend_adaptive_unlock
#define contend_best_downgrade contend_adaptive_downgrade
#define contend_best_t contend_adaptive_t
#define contend_mutex_lock contend_kernel_mutex_lock
#define contend_mutex_trylock contend_kernel_mutex_trylock
#define contend_mutex_timedlock contend_kernel_mutex_timedlock
#define contend_mutex_clocklock contend_kernel_mutex_clocklock
#define contend_mutex_unlock contend_kernel_mutex_unlock
#define contend_mutex_t contend_kernel_mutex_t
#define contend_elided_best_wrlock contend_elided_adaptive_wrlock
#define contend_elided_best_trywrlock contend_elided_adaptive_trywrlock
#define contend_elided_best_timedwrlock contend_elided_adaptive_timedwrlock
#define contend_elided_best_clockwrlock contend_elided_adaptive_clockwrlock
#define contend_elided_best_wrunlock contend_elided_adaptive_wrunlock
#define contend_elided_best_rdlock contend_elided_adaptive_rdlock
#define contend_elided_best_tryrdlock contend_elided_adaptive_tryrdlock
#define contend_elided_best_timedrdlock contend_elided_adaptive_timedrdlock
#define contend_elided_best_clockrdlock contend_elided_adaptive_clockrdlock
#define contend_elided_best_rdunlock contend_elided_adaptive_rdunlock
#define contend_elided_best_rdlock_again contend_elided_adaptive_rdlock_again
#define contend_elided_best_unlock contend_elided_adaptive_unlock
#define contend_elided_best_downgrade contend_elided_adaptive_downgrade
#define contend_elided_best_t contend_elided_adaptive_t

/* End of what is made. */

#ifdef __cplusplus
}
#endif

#endif
