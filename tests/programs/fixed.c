// A program to be linked statically: it lives for as many milliseconds as its argument says. With GO it has the section by which
// a Go program is known.

#include "case.h"

#ifdef GO
__attribute__((used, section(".go.buildinfo"))) static const char go_build_information[16] = "Go buildinf:";
#endif

int main(int argc, char **argv) {
    watch();
    sleep_ns(number(argc, argv, 1, 1000) * MS);
    return 0;
}
