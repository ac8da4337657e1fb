/* Calls functions of two shared objects, the source and what polydl made of it, on the same data, each call in a
 * process of its own, and leaves in the job file what they left in memory.
 *
 *     check_driver SOURCE.so OUTPUT.so JOB
 *
 * The job file holds 64-bit words (polydl/measure/check_job.py writes and reads it). Every object of a call gets pages
 * of its own between pages that may not be touched; it ends at the page behind it or begins at the one in front.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOURCE, OUTPUT, UPWARD, DOWNWARD, SIDES };

struct object {
    int64_t bytes, data, at_end, relocations; /* relocations: words in the file */
    int64_t results[SIDES];
};
struct relocation {
    int64_t offset, target, target_offset; /* target -1: the null pointer */
};
struct outcome {
    int64_t ran, status, flags, damaged; /* flags: 1 inexact, 2 overflow; damaged: 1 + the object beside which it wrote */
    char said[480];
};
struct call {
    int64_t function, objects, first_object, seconds; /* object 0: the arguments */
    struct outcome outcomes[SIDES];
};
struct head {
    int64_t calls, first_call;
};

static char *job;
static size_t page;
enum { CANARY = 0xa5 };

static void end(const char *why)
{
    fprintf(stderr, "check_driver: %s\n", why);
    _exit(125);
}

static char *memory_for(const struct object *o)
{
    const size_t pages = (o->bytes + page - 1) / page + (o->bytes == 0);
    char *base = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page, pages * page, PROT_READ | PROT_WRITE)) end("no memory");
    memset(base + page, CANARY, pages * page);
    return base + page + (o->at_end ? pages * page - o->bytes : 0);
}

static int beside(const struct object *o, const char *place)
{
    const size_t pages = (o->bytes + page - 1) / page + (o->bytes == 0);
    const char *first = o->at_end ? place + o->bytes - pages * page : place;
    for (const char *p = first; p < first + pages * page; p++)
        if ((p < place || p >= place + o->bytes) && *p != (char)CANARY) return 1;
    return 0;
}

static void run(void *library, struct call *call, int side)
{
    char name[64];
    struct object *objects = (struct object *)(job + call->first_object);
    char **places = calloc(call->objects, sizeof *places);
    for (int64_t k = 0; k < call->objects; k++) {
        places[k] = memory_for(&objects[k]);
        memcpy(places[k], job + objects[k].data, objects[k].bytes);
    }
    for (int64_t k = 0; k < call->objects; k++) {
        const int64_t *words = (const int64_t *)(job + objects[k].relocations);
        const struct relocation *r = (const struct relocation *)(words + 1);
        for (int64_t i = 0; i < words[0]; i++) {
            char *to = r[i].target < 0 ? NULL : places[r[i].target] + r[i].target_offset;
            memcpy(places[k] + r[i].offset, &to, sizeof to);
        }
    }
    snprintf(name, sizeof name, "polydl_check_%d", (int)call->function);
    void (*function)(char *) = (void (*)(char *))dlsym(library, name);
    if (function == NULL) end("a function is not there");
    if (side >= UPWARD) fesetround(side == UPWARD ? FE_UPWARD : FE_DOWNWARD);
    feclearexcept(FE_ALL_EXCEPT);
    function(places[0]);
    struct outcome *outcome = &call->outcomes[side];
    outcome->flags = (fetestexcept(FE_INEXACT) ? 1 : 0) | (fetestexcept(FE_OVERFLOW) ? 2 : 0);
    for (int64_t k = 0; k < call->objects; k++) {
        if (beside(&objects[k], places[k])) outcome->damaged = 1 + k;
        memcpy(job + objects[k].results[side], places[k], objects[k].bytes);
    }
    outcome->ran = 1;
    _exit(0); /* nothing that the libraries registered runs */
}

/* Run one side in a child; what it says on its standard error is kept. */
static void in_child(void *library, struct call *call, int side)
{
    struct outcome *outcome = &call->outcomes[side];
    int said[2];
    if (pipe(said)) end("no pipe");
    const pid_t child = fork();
    if (child < 0) end("no process");
    if (child == 0) {
        const struct rlimit none = { 0, 0 }, seconds = { call->seconds * 4, call->seconds * 4 + 1 };
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_CPU, &seconds);
        alarm((unsigned)call->seconds);
        close(said[0]);
        dup2(said[1], 2);
        dup2(open("/dev/null", O_WRONLY), 1);
        dup2(open("/dev/null", O_RDONLY), 0);
        run(library, call, side);
    }
    close(said[1]);
    size_t filled = 0;
    char rest[512];
    for (;;) {
        char *to = filled < sizeof outcome->said - 1 ? outcome->said + filled : rest;
        const size_t room = to == rest ? sizeof rest : sizeof outcome->said - 1 - filled;
        const ssize_t n = read(said[0], to, room);
        if (n <= 0) break;
        if (to != rest) filled += n;
    }
    close(said[0]);
    int status = 0;
    waitpid(child, &status, 0);
    outcome->status = status;
}

int main(int argc, char **argv)
{
    if (argc != 4) end("three files are needed");
    page = (size_t)sysconf(_SC_PAGESIZE);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = open(argv[3], O_RDWR);
    struct stat about;
    if (file < 0 || fstat(file, &about)) end("the job cannot be read");
    job = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (job == MAP_FAILED) end("the job cannot be mapped");
    void *libraries[2];
    for (int k = 0; k < 2; k++) {
        libraries[k] = dlopen(argv[1 + k], RTLD_LAZY | RTLD_LOCAL);
        if (libraries[k] == NULL) end(dlerror());
    }
    const struct head *head = (const struct head *)job;
    struct call *calls = (struct call *)(job + head->first_call);
    for (int64_t k = 0; k < head->calls; k++) {
        in_child(libraries[0], &calls[k], SOURCE);
        if (!calls[k].outcomes[SOURCE].ran) continue;
        in_child(libraries[1], &calls[k], OUTPUT);
        if (calls[k].outcomes[SOURCE].flags & 1) {
            in_child(libraries[0], &calls[k], UPWARD);
            in_child(libraries[0], &calls[k], DOWNWARD);
        }
    }
    return 0;
}
