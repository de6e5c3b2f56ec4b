/* Reductions of arrays, element by element: what predefined operations do with predefined types.
 *
 * Two forms of each, for the order of the operands counts: `left` takes the other operand as the
 * left one, into[i] = from[i] op into[i]; `right` as the right one, into[i] = into[i] op from[i].
 * The arrays must not overlap and need no alignment beyond that of an element, nor even that.
 * Integers wrap around; MAX and MIN of floats hand on NaN; the logical operations give 0 or 1.
 */
#ifndef PYRDV_REDUCE_H
#define PYRDV_REDUCE_H

#include <stddef.h>

typedef void (*reduce_t)(const char *from, char *into, size_t count);

/* In the order of the table in reduce.c. */
enum reduce_op {
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_LAND,
    REDUCE_LOR,
    REDUCE_LXOR,
    REDUCE_BAND,
    REDUCE_BOR,
    REDUCE_BXOR,
    REDUCE_OPS
};

/* The loop for elements of `size` bytes of the kind that NumPy calls `kind` (b i u f c); NULL:
 * there is none.  `right`: the other operand is the right one. */
reduce_t reduce_find(int op, char kind, int size, int right);

#endif
