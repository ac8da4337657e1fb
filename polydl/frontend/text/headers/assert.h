/* Assertions stay calls, so that a region can show that they hold; with NDEBUG there are none. */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#endif
#define static_assert _Static_assert
