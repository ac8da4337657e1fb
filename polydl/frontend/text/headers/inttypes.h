#include_next <inttypes.h>
#include <stdint.h>
