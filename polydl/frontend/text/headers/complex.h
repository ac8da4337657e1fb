#include_next <complex.h>
#define complex _Complex
