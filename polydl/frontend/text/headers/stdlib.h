/* RAND_MAX as glibc and musl have it: the fake header's is another one, and what is made for it never runs. */
#include_next <stdlib.h>
#undef RAND_MAX
#define RAND_MAX 2147483647
