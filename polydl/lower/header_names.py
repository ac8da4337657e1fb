"""Names that the headers of generated code declare beside what that code uses.

A program may have them for itself: `static float select(…)` is right where sys/select.h is not included, but stdlib.h
includes that with glibc, and immintrin.h includes stdlib.h.
"""

import re

LIBRARY_NAMES = frozenset(re.findall(r"\w+", """
    a64l abort abs aligned_alloc alloca arc4random arc4random_buf arc4random_uniform asctime asctime_r at_quick_exit
    atexit atof atoi atol atoll basename bcmp bcopy blkcnt64_t blkcnt_t blksize_t bsearch bzero caddr_t calloc
    canonicalize_file_name clearenv clock clock_adjtime clock_getcpuclockid clock_getres clock_gettime clock_nanosleep
    clock_settime clock_t clockid_t clone comparison_fn_t ctime ctime_r daddr_t daylight dev_t difftime div drand48
    drand48_data drand48_r dysize ecvt ecvt_r erand48 erand48_r exit explicit_bzero fcvt fcvt_r fd_mask ffs ffsl ffsll
    free fsblkcnt64_t fsblkcnt_t fsfilcnt64_t fsfilcnt_t fsid_t gcvt getcpu getdate getdate_err getdate_r getenv
    getloadavg getpt getsubopt gid_t gmtime gmtime_r grantpt id_t index initstate initstate_r ino64_t ino_t itimerspec
    jrand48 jrand48_r key_t l64a labs lcong48 lcong48_r ldiv llabs lldiv locale_t localtime localtime_r loff_t lrand48
    lrand48_r malloc mblen mbstowcs mbtowc memccpy memchr memcmp memcpy memfrob memmem memmove mempcpy memrchr memset
    mkdtemp mkostemp mkostemp64 mkostemps mkostemps64 mkstemp mkstemp64 mkstemps mkstemps64 mktemp mktime mode_t
    mrand48 mrand48_r nanosleep nlink_t nrand48 nrand48_r off64_t off_t on_exit pid_t posix_memalign posix_openpt
    pselect ptsname ptsname_r putenv qecvt qecvt_r qfcvt qfcvt_r qgcvt qsort qsort_r quad_t quick_exit rand rand_r
    random random_data random_r rawmemchr realloc reallocarray realpath register_t rindex rpmatch
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getcpu sched_getparam sched_getscheduler
    sched_param sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler sched_yield secure_getenv
    seed48 seed48_r select setenv setns setstate setstate_r sigabbrev_np sigdescr_np sigevent sigset_t srand srand48
    srand48_r srandom srandom_r ssize_t stpcpy stpncpy strcasecmp strcasecmp_l strcasestr strcat strchr strchrnul
    strcmp strcoll strcoll_l strcpy strcspn strdup strerror strerror_l strerror_r strerrordesc_np strerrorname_np
    strfromd strfromf strfromf128 strfromf32 strfromf32x strfromf64 strfromf64x strfroml strfry strftime strftime_l
    strlen strncasecmp strncasecmp_l strncat strncmp strncpy strndup strnlen strpbrk strptime strptime_l strrchr
    strsep strsignal strspn strstr strtod strtod_l strtof strtof128 strtof128_l strtof32 strtof32_l strtof32x
    strtof32x_l strtof64 strtof64_l strtof64x strtof64x_l strtof_l strtok strtok_r strtol strtol_l strtold strtold_l
    strtoll strtoll_l strtoq strtoul strtoul_l strtoull strtoull_l strtouq strverscmp strxfrm strxfrm_l suseconds_t
    system time time_t timegm timelocal timer_create timer_delete timer_getoverrun timer_gettime timer_settime timer_t
    timespec timespec_get timespec_getres timeval timex timezone tm tzname tzset u_char u_int u_int16_t u_int32_t
    u_int64_t u_int8_t u_long u_quad_t u_short uid_t uint ulong unlockpt unsetenv unshare useconds_t ushort valloc
    wcstombs wctomb
"""))  # fmt: skip
"""Functions, objects, types and tags of omp.h, pthread.h, stdlib.h, string.h and immintrin.h of gcc 12 with glibc 2.36
(`gcc -E -D_GNU_SOURCE`), and of what these include; but for reserved names and those that begin with `omp_` or
`pthread_`."""
