/* A tour of contend.h: static locks, a try, a deadline, readers and writers, a node in the caller's frame, a reference
   count, waits for something else than a lock, and several locks in any order.

   cc -std=c11 tour.c $(pkg-config --cflags --libs contend) -pthread */
#define _POSIX_C_SOURCE 200809L
#include <contend.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 2000, TURNS = 50 };

/* Zero is free: no initialiser is needed. */
static contend_futex_t mutex;
static contend_qspin_t spin;
static contend_rw_t table_lock;
static contend_mcs_queue_t queue;
static contend_lockref_t object;

static long by_mutex, by_spin, by_queue, table[2];

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}

static void *work(void *argument)
{
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        contend_futex_lock(&mutex);
        by_mutex++;
        contend_futex_unlock(&mutex);

        if (contend_qspin_trylock(&spin) == EBUSY)
            contend_qspin_lock(&spin);
        by_spin++;
        contend_qspin_unlock(&spin);

        contend_mcs_node_t node; /* in this frame, until the unlock */
        contend_mcs_queue_lock(&queue, &node);
        by_queue++;
        contend_mcs_queue_unlock(&queue, &node);

        if (round % 8 == 0) {
            contend_rw_wrlock(&table_lock);
            table[0]++;
            table[1]++;
            contend_rw_downgrade(&table_lock); /* reads on, with other readers */
            check(table[0] == table[1], "somebody wrote meanwhile");
            contend_rw_unlock(&table_lock); /* of whichever side */
        } else {
            contend_rw_rdlock(&table_lock);
            contend_rw_rdlock_again(&table_lock); /* past a waiting writer */
            check(table[0] == table[1], "a reader met a writer");
            contend_rw_rdunlock(&table_lock);
            contend_rw_rdunlock(&table_lock);
        }

        check(contend_lockref_get_not_zero(&object), "the object has a reference");
        check(contend_lockref_put_or_lock(&object), "which was not the last");
    }
    return NULL;
}

/* Condition variable, semaphore, barrier and once: threads pass a number round, two at a time in the middle. */
static contend_futex_t turn_lock;
static contend_condvar_t turned;
static int turn;
static contend_semaphore_t seats = CONTEND_SEMAPHORE_INIT(2);
static contend_barrier_t all_here = CONTEND_BARRIER_INIT(THREADS);
static contend_once_t prepared;
static int preparations, leaders;

static void prepare(void)
{
    preparations++;
}

static void *take_turns(void *number)
{
    contend_once_call(&prepared, prepare);
    for (int round = 0; round < TURNS; round++) {
        const int mine = round * THREADS + (int)(intptr_t)number;
        contend_semaphore_wait(&seats);
        contend_semaphore_post(&seats, 1);
        contend_futex_lock(&turn_lock);
        while (turn != mine) {
            const unsigned int entered = contend_condvar_enter(&turned);
            contend_futex_unlock(&turn_lock);
            contend_condvar_sleep(&turned, entered);
            contend_futex_lock(&turn_lock);
        }
        turn++;
        contend_futex_unlock(&turn_lock);
        contend_condvar_broadcast(&turned);
    }
    if (contend_barrier_wait(&all_here) == CONTEND_BARRIER_LEADER)
        leaders++;
    return NULL;
}

static void waits(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, take_turns, (void *)i) == 0, "a thread starts");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(turn == THREADS * TURNS, "everybody had its turns");
    check(preparations == 1, "once is once");
    check(leaders == 1, "a barrier has one leader");

    contend_semaphore_t none = CONTEND_SEMAPHORE_INIT(0);
    contend_condvar_t never = CONTEND_INIT;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    check(contend_semaphore_trywait(&none) == EBUSY, "there is no permit");
    check(contend_semaphore_clockwait(&none, CLOCK_MONOTONIC, &at) == ETIMEDOUT, "none comes");
    check(contend_semaphore_post(&none, 1u << 31) == EOVERFLOW, "permits are counted");
    check(contend_condvar_clocksleep(&never, contend_condvar_enter(&never), CLOCK_MONOTONIC, &at) == ETIMEDOUT,
          "a wait ends at its deadline");
    check(contend_condvar_clocksleep(&never, contend_condvar_enter(&never), CLOCK_MONOTONIC, NULL) == EINVAL,
          "no time is none");
}

/* A wait table: threads sleep while a word holds what it holds, and whoever changes it wakes them. */
static _Atomic uint32_t stage;

static void *await_last_stage(void *table)
{
    uint32_t seen;
    while ((seen = atomic_load(&stage)) != TURNS)
        contend_wait_table_wait(table, &stage, seen);
    return NULL;
}

static void waits_on_a_word(void)
{
    contend_wait_table_t *const stages = contend_wait_table_new(1);
    pthread_t threads[THREADS];
    check(contend_wait_table_grow(stages, THREADS) == 0, "a table grows");
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, await_last_stage, stages) == 0, "a thread starts");
    for (uint32_t next = 1; next <= TURNS; next++) {
        atomic_store(&stage, next);
        contend_wait_table_wake(stages, &stage, THREADS);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    check(contend_wait_table_wait(stages, &stage, 0) == EAGAIN, "the word holds something else");
    check(contend_wait_table_clockwait(stages, &stage, TURNS, CLOCK_MONOTONIC, &at) == ETIMEDOUT,
          "a wait ends at its deadline");
    check(contend_wait_table_clockwait(stages, &stage, TURNS, CLOCK_MONOTONIC, NULL) == EINVAL, "no time is none");
    check(contend_wait_table_wake(stages, &stage, 1) == 0, "nobody sleeps");
    contend_wait_table_free(stages);
    check(contend_wait_table_new((size_t)1 << 23) == NULL, "no process has so many threads");
}

/* Wound/wait mutexes: transfers between accounts, whose locks are taken in any order. */
enum { ACCOUNTS = 3 };
static contend_ww_class_t account_class = CONTEND_WW_WOUND_WAIT;
static contend_ww_t account_locks[ACCOUNTS] = {
    CONTEND_WW_INIT(&account_class), CONTEND_WW_INIT(&account_class), CONTEND_WW_INIT(&account_class)};
static long balances[ACCOUNTS];

/* By hand: whoever is refused unlocks what it has, waits for the lock that it did not get, and goes on from there. */
static void transfer(int from, int to)
{
    contend_ww_context_t context;
    contend_ww_context_init(&context, &account_class);
    contend_ww_t *first = &account_locks[from], *second = &account_locks[to];
    int error = contend_ww_lock(first, &context);
    while (error == 0 && (error = contend_ww_lock(second, &context)) == EDEADLK) {
        contend_ww_unlock(first);
        error = contend_ww_lock_slow(second, &context);
        contend_ww_t *const held = second;
        second = first;
        first = held;
    }
    check(error == 0, "both are locked");
    contend_ww_context_done(&context); /* it takes no more */
    balances[from]--;
    balances[to]++;
    contend_ww_unlock(&account_locks[from]);
    contend_ww_unlock(&account_locks[to]);
}

static void *transfers(void *argument)
{
    const int number = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        const int from = (number + round) % ACCOUNTS, to = (from + 1 + round / ACCOUNTS % 2) % ACCOUNTS;
        transfer(from, to);
        if (round % 8 == 0) { /* all at once */
            contend_ww_t *const both[] = {&account_locks[to], &account_locks[from]};
            contend_ww_context_t context;
            contend_ww_context_init(&context, &account_class);
            check(contend_ww_lock_all(both, 2, &context) == 0, "both are locked");
            balances[to] -= 2;
            balances[from] += 2;
            contend_ww_unlock(both[1]);
            contend_ww_unlock(both[0]);
            contend_ww_context_done(&context);
        } else if (round % 8 == 1) { /* one alone, as any mutex */
            if (contend_ww_trylock(&account_locks[to], NULL) == EBUSY)
                contend_ww_lock(&account_locks[to], NULL);
            balances[to]++;
            balances[to]--;
            contend_ww_unlock(&account_locks[to]);
        }
    }
    return NULL;
}

static void transactions(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, transfers, (void *)i) == 0, "a thread starts");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(balances[0] + balances[1] + balances[2] == 0, "nothing is lost");

    contend_ww_class_t other_class = CONTEND_WW_WAIT_DIE;
    contend_ww_t *const one = &account_locks[0], *const other = &account_locks[1];
    contend_ww_t *const twice[] = {one, other, one};
    contend_ww_context_t context, stranger;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    contend_ww_context_init(&context, &account_class);
    contend_ww_context_init(&stranger, &other_class);
    check(contend_ww_lock_all(twice, 3, &context) == EALREADY, "one is there twice");
    check(contend_ww_lock_all(NULL, 0, &context) == 0, "no mutexes are locked at once");
    check(contend_ww_lock_all(twice, 2, NULL) == EINVAL, "which is for a context");
    check(contend_ww_lock_slow(one, NULL) == EINVAL, "which is, too");
    check(contend_ww_lock(one, &stranger) == EINVAL, "a context of another class");
    check(contend_ww_trylock(one, &stranger) == EINVAL, "a context of another class");
    check(contend_ww_lock(one, &context) == 0, "it is free");
    check(contend_ww_lock(one, &context) == EALREADY, "the context has it");
    check(contend_ww_trylock(one, &context) == EBUSY, "nor is it free");
    check(contend_ww_lock_slow(other, &context) == EINVAL, "which is for who holds nothing");
    check(contend_ww_lock_all(twice + 1, 1, &context) == EINVAL, "which is for who holds nothing, too");
    check(contend_ww_clocklock(one, NULL, CLOCK_MONOTONIC, &at) == ETIMEDOUT, "a deadline passes");
    check(contend_ww_clocklock(other, &context, CLOCK_MONOTONIC, NULL) == EINVAL, "no time is none");
    contend_ww_lock(other, NULL);
    check(contend_ww_clocklock(other, &context, CLOCK_MONOTONIC, &at) == ETIMEDOUT, "in a context, too");
    contend_ww_unlock(other);
    contend_ww_context_done(&context);
    check(contend_ww_lock(other, &context) == EINVAL, "it is done");
    contend_ww_unlock(one);
    contend_ww_context_done(&stranger);
}

int main(void)
{
    pthread_t threads[THREADS];
    contend_lockref_lock(&object);
    contend_lockref_add_locked(&object, 1);
    contend_lockref_unlock(&object);
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, work, NULL) == 0, "a thread starts");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    check(by_mutex == THREADS * ROUNDS, "futex excludes");
    check(by_spin == THREADS * ROUNDS, "qspin excludes");
    check(by_queue == THREADS * ROUNDS, "mcs_queue excludes");
    check(table[0] == THREADS * ROUNDS / 8, "rw excludes writers");
    check(contend_lockref_count(&object) == 1, "references add up");

    contend_osq_t timed = CONTEND_INIT;
    struct timespec at;
    contend_osq_lock(&timed);
    check(contend_osq_trylock(&timed) == EBUSY, "a held lock refuses");
    clock_gettime(CLOCK_REALTIME, &at);
    check(contend_osq_timedlock(&timed, &at) == ETIMEDOUT, "a deadline passes");
    check(contend_osq_clocklock(&timed, CLOCK_MONOTONIC, NULL) == EINVAL, "no time is none");
    contend_osq_unlock(&timed);
    check(contend_osq_timedlock(&timed, &at) == 0, "a free lock needs no waiting");
    contend_osq_unlock(&timed);

    waits();
    waits_on_a_word();
    transactions();
    puts("all counts add up");
    return 0;
}
