// C11 mtx_* and cnd_*: every type in every state, with the answers of <threads.h>.

#include "case.h"
#include <threads.h>

static const char *thrd_name(int answer) {
    switch (answer) {
    case thrd_success: return "success";
    case thrd_busy: return "busy";
    case thrd_error: return "error";
    case thrd_nomem: return "nomem";
    case thrd_timedout: return "timedout";
    default: return "?";
    }
}

static int answer(const char *function, const char *kind, const char *state, int value) {
    printf("%s | %s | %s -> %s\n", function, kind, state, thrd_name(value));
    return value;
}

#define SUCCEED(call) CHECK((call) == thrd_success)

static int lock(void *mutex) { return mtx_lock(mutex); }
static int trylock(void *mutex) { return mtx_trylock(mutex); }
static int unlock(void *mutex) { return mtx_unlock(mutex); }

struct request {
    mtx_t *mutex;
    struct timespec deadline;
};

static int timedlock(void *argument) {
    struct request *request = argument;
    return mtx_timedlock(request->mutex, &request->deadline);
}

static struct actor other;

static void mutexes(const char *kind, int type) {
    mtx_t mutex;
    memset(&mutex, 0xA5, sizeof mutex);
    answer("mtx_init", kind, "new", mtx_init(&mutex, type));
    answer("mtx_lock", kind, "unlocked", lock(&mutex));
    answer("mtx_trylock, by another", kind, "held-by-other", ask(&other, trylock, &mutex));
    answer("mtx_unlock", kind, "held-by-self", unlock(&mutex));
    answer("mtx_trylock", kind, "unlocked", trylock(&mutex));
    int again = answer("mtx_trylock", kind, "held-by-self", trylock(&mutex));
    if (again == thrd_success) {
        answer("mtx_lock", kind, "held twice by self", lock(&mutex));
        for (int i = 0; i < 2; i++) {
            answer("mtx_unlock", kind, "held more than once", unlock(&mutex));
            answer("mtx_trylock, by another", kind, "still held", ask(&other, trylock, &mutex));
        }
    }
    answer("mtx_unlock", kind, "held-by-self after trylock", unlock(&mutex));

    if (type & mtx_timed) {
        struct request request = {&mutex, from_now(CLOCK_REALTIME, -MS)};
        answer("mtx_timedlock, past", kind, "unlocked", timedlock(&request));
        answer("mtx_timedlock, past, by another", kind, "held-by-other", ask(&other, timedlock, &request));
        request.deadline = from_now(CLOCK_REALTIME, 10 * MS);
        answer("mtx_timedlock, in 10 ms, by another", kind, "held-by-other", ask(&other, timedlock, &request));
        request.deadline.tv_nsec = 1000000000;
        answer("mtx_timedlock, nsec 1000000000, by another", kind, "held-by-other", ask(&other, timedlock, &request));
        request.deadline = from_now(CLOCK_REALTIME, 10 * MS);
        if (answer("mtx_timedlock, in 10 ms", kind, "held-by-self", timedlock(&request)) == thrd_success)
            SUCCEED(unlock(&mutex));
        request.deadline = from_now(CLOCK_REALTIME, 20000 * MS);
        bool waits = start(&other, timedlock, &request);
        printf("mtx_timedlock, in 20 s | %s | held-by-other -> %s\n", kind, waits ? "blocks" : "returns");
        SUCCEED(unlock(&mutex));
        answer("mtx_timedlock, in 20 s", kind, "released while waiting", collect(&other));
        SUCCEED(ask(&other, unlock, &mutex));
    }
    SUCCEED(lock(&mutex));
    bool waits = start(&other, lock, &mutex);
    printf("mtx_lock | %s | held-by-other -> %s\n", kind, waits ? "blocks" : "returns");
    SUCCEED(unlock(&mutex));
    answer("mtx_lock", kind, "after waiting", collect(&other));
    answer("mtx_trylock", kind, "held by the former waiter", trylock(&mutex));
    SUCCEED(ask(&other, unlock, &mutex));
    mtx_destroy(&mutex);
}

static struct {
    mtx_t mutex;
    cnd_t cond;
    int tokens, waiting;
    int64_t patience_ns; // 0: without a deadline
} room;

static int take_token(void *unused) {
    (void)unused;
    struct timespec deadline = from_now(CLOCK_REALTIME, room.patience_ns);
    SUCCEED(mtx_lock(&room.mutex));
    room.waiting++;
    int status = thrd_success;
    while (room.tokens == 0 && status == thrd_success)
        status = room.patience_ns == 0 ? cnd_wait(&room.cond, &room.mutex)
                                       : cnd_timedwait(&room.cond, &room.mutex, &deadline);
    room.waiting--;
    if (status == thrd_success) room.tokens--;
    SUCCEED(mtx_unlock(&room.mutex));
    return status;
}

static void conditions(const char *kind, int type) {
    struct actor waiters[3];
    SUCCEED(mtx_init(&room.mutex, type));
    answer("cnd_init", kind, "new", cnd_init(&room.cond));
    answer("cnd_signal", kind, "nobody waits", cnd_signal(&room.cond));
    answer("cnd_broadcast", kind, "nobody waits", cnd_broadcast(&room.cond));
    for (size_t i = 0; i < COUNT(waiters); i++) hire(&waiters[i]);
    for (int timed = 0; timed < 2; timed++) {
        const char *wait = timed ? "cnd_timedwait" : "cnd_wait";
        room.patience_ns = timed ? 20000 * MS : 0;
        for (int broadcast = 0; broadcast < 2; broadcast++) {
            for (size_t i = 0; i < COUNT(waiters); i++) start(&waiters[i], take_token, NULL);
            SUCCEED(mtx_lock(&room.mutex));
            CHECK(room.waiting == COUNT(waiters));
            room.tokens = COUNT(waiters);
            if (broadcast) answer("cnd_broadcast", kind, "three wait", cnd_broadcast(&room.cond));
            else
                for (size_t i = 0; i < COUNT(waiters); i++) answer("cnd_signal", kind, "some wait", cnd_signal(&room.cond));
            SUCCEED(mtx_unlock(&room.mutex));
            for (size_t i = 0; i < COUNT(waiters); i++)
                answer(wait, kind, broadcast ? "broadcast" : "signalled", collect(&waiters[i]));
        }
    }
    room.patience_ns = 10 * MS;
    answer("cnd_timedwait, in 10 ms", kind, "nobody signals", take_token(NULL));
    room.patience_ns = -10 * MS;
    answer("cnd_timedwait, past", kind, "nobody signals", take_token(NULL));
    struct timespec bad = {.tv_sec = now_ns(CLOCK_REALTIME) / 1000000000 + 20, .tv_nsec = 1000000000};
    SUCCEED(mtx_lock(&room.mutex));
    answer("cnd_timedwait, nsec 1000000000", kind, "nobody signals", cnd_timedwait(&room.cond, &room.mutex, &bad));
    answer("mtx_trylock, by another", kind, "after a refused wait", ask(&other, trylock, &room.mutex));
    SUCCEED(mtx_unlock(&room.mutex));
    for (size_t i = 0; i < COUNT(waiters); i++) dismiss(&waiters[i]);
    cnd_destroy(&room.cond);
    mtx_destroy(&room.mutex);
}

int main(void) {
    watch();
    hire(&other);
    mutexes("plain", mtx_plain);
    mutexes("timed", mtx_timed);
    mutexes("plain recursive", mtx_plain | mtx_recursive);
    mutexes("timed recursive", mtx_timed | mtx_recursive);
    conditions("plain", mtx_plain);
    conditions("timed", mtx_timed);
    conditions("plain recursive", mtx_plain | mtx_recursive);
    dismiss(&other);
    puts("end");
    return 0;
}
