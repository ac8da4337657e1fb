/* Times the contenders of one program in turn. Included behind tests/programs/support.h; the generated text defines
   `corpus_call`, which calls a contender on the arrays, and `corpus_arrays`, which describes them. */
#include <dlfcn.h>
#include <time.h>

static double corpus_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of a contender's first run from which on it is not run again: that run stands for all of its rounds. */
#define CORPUS_PATIENCE 20.0

/* argv: rounds (at most), seconds for all of them, function, then a shared object for each contender, the reference
   first. Prints one line a measurement: "contender seconds", and "wrong contender …" where results differ. */
int main(int argc, char **argv)
{
    int rounds = atoi(argv[1]), contenders = argc - 4;
    double budget = atof(argv[2]);
    corpus_function *functions = malloc((size_t)contenders * sizeof *functions);
    struct corpus_array *arrays = corpus_arrays();
    char **inputs = malloc((size_t)CORPUS_ARRAYS * sizeof *inputs);
    void **libraries = malloc((size_t)contenders * sizeof *libraries);
    double *first = malloc((size_t)contenders * sizeof *first);
    for (int c = 0; c < contenders; c++) {
        libraries[c] = dlopen(argv[4 + c], RTLD_NOW | RTLD_LOCAL);
        functions[c] = libraries[c] ? (corpus_function)dlsym(libraries[c], argv[3]) : 0;
        if (functions[c] == 0) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
    }
    corpus_allocate(arrays, CORPUS_ARRAYS);
    for (int a = 0; a < CORPUS_ARRAYS; a++)
        if (arrays[a].type & 0x80) {
            arrays[a].data = dlsym(libraries[0], arrays[a].name);
            if (arrays[a].data == 0)
                arrays[a].elements = 0; /* a static one is the program's own */
        }
    corpus_fill(arrays, CORPUS_ARRAYS);
    corpus_subscripts(arrays);
    for (int a = 0; a < CORPUS_ARRAYS; a++) {
        inputs[a] = malloc(arrays[a].elements * arrays[a].size);
        memcpy(inputs[a], arrays[a].data, arrays[a].elements * arrays[a].size);
    }
    double begin = corpus_seconds();
    for (int round = -1; round < rounds; round++) {
        if (round > 2 && corpus_seconds() - begin > budget)
            break;
        for (int turn = 0; turn < contenders; turn++) {
            int c = round < 0 ? turn : (turn + round) % contenders;
            if (round >= 0 && first[c] > CORPUS_PATIENCE) {
                printf("%d %.9f\n", c, first[c]);
                continue;
            }
            for (int a = 0; a < CORPUS_ARRAYS; a++) {
                /* a global array is another object in each shared object */
                if (arrays[a].type & 0x80)
                    arrays[a].data = dlsym(libraries[c], arrays[a].name);
                memcpy(arrays[a].data, inputs[a], arrays[a].elements * arrays[a].size);
            }
            double start = corpus_seconds();
            corpus_call(functions[c], arrays);
            double seconds = corpus_seconds() - start;
            if (round < 0)
                first[c] = seconds;
            if (round >= 0)
                printf("%d %.9f\n", c, seconds);
            else if (c == 0)
                corpus_keep(arrays, CORPUS_ARRAYS);
            else {
                char name[32];
                snprintf(name, sizeof name, "wrong %d", c);
                corpus_compare(arrays, CORPUS_ARRAYS, name);
            }
        }
    }
    return 0;
}
