// Loads plug-ins one after another, each in the place of the one before, and has each take its own lock 100 times. Prints the locks'
// addresses as JSON.
//
// Usage: reloaded PLUGIN...

#include "case.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    watch();
    printf("[");
    for (int i = 1; i < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW);
        if (plugin == NULL) fail("%s", dlerror());
        void *(*use)(int) = (void *(*)(int))dlsym(plugin, "plugin_use");
        if (use == NULL) fail("%s", dlerror());
        printf("%s\"%p\"", i > 1 ? ", " : "", use(100));
        CHECK(dlclose(plugin) == 0);
    }
    puts("]");
    return 0;
}
