/* Have the kernel make the pages of memory that is about to be written. */
#ifndef PYRDV_PAGES_H
#define PYRDV_PAGES_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Cut memory down to the pages that it has for itself alone. */
static inline void pages_whole(char **begin, uint64_t *length) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)*begin + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)*begin + *length) / page * page;
    *begin = (char *)first;
    *length = end > first ? end - first : 0;
}

/* Whole pages. 0, or -1 with errno: an older kernel, or memory that cannot be written to. Contents
 * stay. */
static inline int pages_make(char *begin, uint64_t length) {
    return madvise(begin, length, MADV_POPULATE_WRITE);
}

#endif
