/* One unlock for both sides of every reader-writer lock, and a writer that becomes a reader. */
#include <contend.h>

#include <errno.h>
#include <stdio.h>

#define CHECK(right)                                                                                                   \
    do {                                                                                                               \
        if (!(right)) {                                                                                                \
            fprintf(stderr, "line %d: wrong: %s\n", __LINE__, #right);                                                 \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#define SIDES(name)                                                                                                    \
    static int name##_sides(void)                                                                                      \
    {                                                                                                                  \
        contend_##name##_t lock = CONTEND_INIT;                                                                        \
        CHECK(contend_##name##_wrlock(&lock) == 0 && contend_##name##_tryrdlock(&lock) == EBUSY);                      \
        CHECK(contend_##name##_unlock(&lock) == 0);                                                                    \
        CHECK(contend_##name##_rdlock(&lock) == 0 && contend_##name##_tryrdlock(&lock) == 0);                          \
        CHECK(contend_##name##_unlock(&lock) == 0 && contend_##name##_trywrlock(&lock) == EBUSY);                      \
        CHECK(contend_##name##_unlock(&lock) == 0 && contend_##name##_trywrlock(&lock) == 0);                          \
        CHECK(contend_##name##_downgrade(&lock) == 0 && contend_##name##_tryrdlock(&lock) == 0);                       \
        CHECK(contend_##name##_trywrlock(&lock) == EBUSY);                                                             \
        CHECK(contend_##name##_unlock(&lock) == 0 && contend_##name##_rdunlock(&lock) == 0);                           \
        CHECK(contend_##name##_trywrlock(&lock) == 0 && contend_##name##_unlock(&lock) == 0);                          \
        return 0;                                                                                                      \
    }

SIDES(rw)
SIDES(rw_naive)
SIDES(rw_queued)
SIDES(rwsem)

int main(void)
{
    if (rw_sides() || rw_naive_sides() || rw_queued_sides() || rwsem_sides())
        return 1;
    puts("either side");
    return 0;
}
