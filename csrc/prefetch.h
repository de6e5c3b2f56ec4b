/* Lines of the cache that will be written soon. */
#ifndef PYRDV_PREFETCH_H
#define PYRDV_PREFETCH_H

/* A hint: any address may be given. */
static inline void prefetch_write(const void *where) { __builtin_prefetch(where, 1, 3); }

#endif
