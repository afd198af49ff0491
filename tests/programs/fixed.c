// A program to be linked statically: it lives for as many milliseconds as its argument says.

#include "case.h"

int main(int argc, char **argv) {
    watch();
    sleep_ns(number(argc, argv, 1, 1000) * MS);
    return 0;
}
