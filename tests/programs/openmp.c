// Threads of OpenMP that count in a critical section, which is no pthread's.
#include <stdio.h>

int main(void) {
    long count = 0;
#pragma omp parallel for num_threads(2)
    for (int round = 0; round < 1000; round++) {
#pragma omp critical
        count++;
    }
    printf("%ld rounds\n", count);
    return count != 1000;
}
