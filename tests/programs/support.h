/* Fills, keeps and compares the arrays of a program; every buffer has canaries on both sides. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORPUS_INT, CORPUS_NATURAL, CORPUS_LETTER, CORPUS_BIT, CORPUS_REAL, CORPUS_LARGE, CORPUS_SMALL, CORPUS_BFLOAT,
       CORPUS_DOMINANT };
enum { CORPUS_CANARY_BYTES = 264, CORPUS_CANARY = 0xa5 }; /* odd in elements: arrays are not over-aligned */

#define CORPUS_TYPE(type) _Generic((type)0, double: 'd', float: 'f', int: 'i', unsigned: 'u', long: 'l', unsigned long: 'l', \
                                   short: 's', signed char: 'b', char: 'b', unsigned char: 'c', unsigned short: 'h')

struct corpus_array {
    const char *name;
    char *data;
    size_t elements, columns, size;
    char type;
    int kind;
    double bound;
    int dead;
    char *kept;
};

static void corpus_allocate(struct corpus_array *arrays, int count)
{
    for (int a = 0; a < count; a++) {
        size_t bytes = arrays[a].elements * arrays[a].size;
        if (arrays[a].data == 0) {
            char *whole = malloc(bytes + 2 * CORPUS_CANARY_BYTES);
            memset(whole, CORPUS_CANARY, bytes + 2 * CORPUS_CANARY_BYTES);
            arrays[a].data = whole + CORPUS_CANARY_BYTES;
            arrays[a].kept = malloc(bytes + 1);
        } else {
            arrays[a].kept = malloc(bytes + 1);
            arrays[a].type |= 0x80; /* not ours */
        }
    }
}

static double corpus_number(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static double corpus_value(int kind, size_t at, size_t columns, uint64_t seed)
{
    double unit = corpus_number(at + (seed << 40));
    switch (kind) {
    case CORPUS_INT: return floor(unit * 7) - 3;
    case CORPUS_NATURAL: return floor(unit * 9) + 1;
    case CORPUS_LETTER: return floor(unit * 4);
    case CORPUS_BIT: return floor(unit * 2);
    case CORPUS_REAL: return 0.1 + 0.9 * unit;
    case CORPUS_LARGE: return 4 + unit;
    case CORPUS_SMALL: return 0.01 * unit;
    case CORPUS_BFLOAT: { /* the bits of an integer that is one */
        float number = (float)(floor(unit * 7) - 3);
        unsigned bits;
        memcpy(&bits, &number, sizeof bits);
        return bits >> 16;
    }
    }
    size_t i = at / columns, j = at % columns;
    double same = corpus_number((i < j ? i * columns + j : j * columns + i) + (seed << 40));
    return i == j ? (double)columns + same : same;
}

static double corpus_get(const char *data, size_t at, char type)
{
    switch (type & 0x7f) {
    case 'd': return ((const double *)data)[at];
    case 'f': return ((const float *)data)[at];
    case 'i': return ((const int *)data)[at];
    case 'u': return ((const unsigned *)data)[at];
    case 'b': return ((const signed char *)data)[at];
    case 'l': return (double)((const long *)data)[at];
    case 's': return ((const short *)data)[at];
    case 'h': return ((const unsigned short *)data)[at];
    }
    return ((const unsigned char *)data)[at];
}

static void corpus_set(struct corpus_array *array, size_t at, double value)
{
    switch (array->type & 0x7f) {
    case 'd': ((double *)array->data)[at] = value; break;
    case 'f': ((float *)array->data)[at] = (float)value; break;
    case 'i': ((int *)array->data)[at] = (int)value; break;
    case 'u': ((unsigned *)array->data)[at] = (unsigned)value; break;
    case 'b': ((signed char *)array->data)[at] = (signed char)value; break;
    case 'l': ((long *)array->data)[at] = (long)value; break;
    case 's': ((short *)array->data)[at] = (short)value; break;
    case 'h': ((unsigned short *)array->data)[at] = (unsigned short)value; break;
    default: ((unsigned char *)array->data)[at] = (unsigned char)value;
    }
}

static void corpus_fill(struct corpus_array *arrays, int count)
{
    for (int a = 0; a < count; a++)
        for (size_t at = 0; at < arrays[a].elements; at++)
            corpus_set(&arrays[a], at, corpus_value(arrays[a].kind, at, arrays[a].columns, (uint64_t)a + 1));
}

static void corpus_keep(struct corpus_array *arrays, int count)
{
    for (int a = 0; a < count; a++)
        memcpy(arrays[a].kept, arrays[a].data, arrays[a].elements * arrays[a].size);
}

static int corpus_compare(struct corpus_array *arrays, int count, const char *what)
{
    int differences = 0;
    for (int a = 0; a < count; a++) {
        struct corpus_array *array = &arrays[a];
        size_t bytes = array->elements * array->size;
        if (!(array->type & 0x80))
            for (size_t at = 0; at < CORPUS_CANARY_BYTES; at++)
                if ((unsigned char)array->data[bytes + at] != CORPUS_CANARY
                    || (unsigned char)array->data[-1 - (long)at] != CORPUS_CANARY) {
                    printf("%s: wrote outside %s\n", what, array->name);
                    differences++;
                    break;
                }
        if (array->dead)
            continue;
        double most = 0;
        for (size_t at = 0; at < array->elements; at++) {
            double size = fabs(corpus_get(array->kept, at, array->type));
            if (!isfinite(size)) {
                printf("%s: %s[%zu] of the original is %g\n", what, array->name, at, size);
                differences++;
                break;
            }
            most = size > most ? size : most;
        }
        for (size_t at = 0; at < array->elements; at++) {
            double wanted = corpus_get(array->kept, at, array->type), got = corpus_get(array->data, at, array->type);
            if (!(fabs(wanted - got) <= array->bound * most)) {
                printf("%s: %s[%zu] is %.17g, not %.17g\n", what, array->name, at, got, wanted);
                differences++;
                break;
            }
        }
    }
    return differences;
}

static void corpus_free(struct corpus_array *arrays, int count)
{
    for (int a = 0; a < count; a++) {
        free(arrays[a].kept);
        if (!(arrays[a].type & 0x80))
            free(arrays[a].data - CORPUS_CANARY_BYTES);
    }
}
