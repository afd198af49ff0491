// What calls of futex(2) and other system calls cost: CPU time of a wait that ends at once, of a hand-over between two threads that
// sleep in turns, and of a system call that is none of these. Waits for a byte on standard input before each round, and prints the
// nanoseconds.

#include "stress.h"

#include <linux/futex.h>
#include <sys/syscall.h>

static _Atomic uint32_t turn;

static long futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static double per_call(int64_t begun_ns, long calls) {
    return (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - begun_ns) / (double)calls;
}

static double waits_that_end_at_once(long calls) {
    int64_t begun_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < calls; i++) futex(&turn, FUTEX_WAIT, UINT32_MAX);
    return per_call(begun_ns, calls);
}

static double other_calls(long calls) {
    int64_t begun_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < calls; i++) syscall(SYS_getppid);
    return per_call(begun_ns, calls);
}

static long hand_overs;

static void *hand_over(void *index) {
    uint32_t own = (uint32_t)(uintptr_t)index;
    for (long i = 0; i < hand_overs; i++) {
        while (turn != own) futex(&turn, FUTEX_WAIT, 1 - own);
        turn = 1 - own;
        futex(&turn, FUTEX_WAKE, 1);
    }
    return NULL;
}

static double sleeps_in_turns(long calls) {
    hand_overs = calls / 2;
    turn = 0;
    int64_t begun_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    disperse(assemble(2, hand_over));
    return per_call(begun_ns, calls);
}

int main(int argc, char **argv) {
    long calls = number(argc, argv, 1, 100000);
    watch();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one); // where both threads take turns, too
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    printf("ready\n");
    while (getchar() != EOF) {
        double at_once = waits_that_end_at_once(calls), asleep = sleeps_in_turns(calls), others = other_calls(calls);
        printf("%.0f %.0f %.0f\n", at_once, asleep, others);
    }
    return 0;
}
