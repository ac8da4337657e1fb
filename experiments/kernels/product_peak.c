/* The peak of one inner product in every thread. What is before it, from polydl's templates: vectors, MULTIPLY, and
   SUMS and WORDS, the names of the vectors that it adds to and multiplies. */
#define FOR_EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
#define START(c) SUMS sum##c = NAMED(SUMS, _zero)();
#define HIDE(vector) __asm__ volatile("" : "+v"(vector));
/* The empty assembly keeps a chain in its register and the compiler from computing it otherwise. No product is that of
   another chain: where one is two instructions, the first of them could be shared. */
#define STEP(c)                                    \
    sum##c = MULTIPLY(x[c % 2], y[c / 2], sum##c); \
    HIDE(sum##c)
#define COUNT(c) +1
#define ADD(c) all = all + sum##c;

/* Runs `steps` times as many products of full vectors as there are chains, in every thread. Returns the operations
   done, a multiplication and an addition counting as two; `*sink` keeps the compiler from dropping them. */
double product_peak(long steps, float *sink)
{
    double operations = 0;
    float total = 0;
#pragma omp parallel reduction(+ : operations, total)
    {
        WORDS x[2], y[6];
        for (int i = 0; i < 2; i++) x[i] = NAMED(WORDS, _all)(0x3f803f80);
        for (int i = 0; i < 6; i++) {
            y[i] = NAMED(WORDS, _zero)();
            HIDE(y[i])
        }
        FOR_EACH_CHAIN(START)
        for (long step = 0; step < steps; step++) {
            HIDE(x[0]) HIDE(x[1])
            FOR_EACH_CHAIN(STEP)
        }
        SUMS all = NAMED(SUMS, _zero)();
        FOR_EACH_CHAIN(ADD)
        total += (float)all[0];
        operations += 2.0 * GROUP * (sizeof(SUMS) / 4) * (FOR_EACH_CHAIN(COUNT)) * (double)steps;
    }
    *sink = total;
    return operations;
}
