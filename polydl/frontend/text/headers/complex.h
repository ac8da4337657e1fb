#include_next <complex.h>
#define complex _Complex
/* Literals of gcc's own behind these. */
#undef I
#undef _Complex_I
