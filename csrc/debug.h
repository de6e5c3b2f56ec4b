/* What PYRDV_DEBUG=1 asserts while a job runs. */
#ifndef PYRDV_DEBUG_H
#define PYRDV_DEBUG_H

#include <stdio.h>
#include <stdlib.h>

/* `rule` is broken if not `holds`: say so, and end the process where a debugger or a core shows
 * by whom. */
static inline void debug_assert(int holds, const char *rule) {
    if (!holds) {
        fprintf(stderr, "pyrdv: PYRDV_DEBUG: %s\n", rule);
        abort();
    }
}

#endif
