/* An example for polydl: one layer of a neural network, y = max(W * x + b, 0), for a batch of inputs.
 *
 *     polydl analyze example.c      shows what polydl reads here: loops, accesses, dependences
 *     polydl rank example.c         shows which ways to run the loops look best; runs nothing
 *     polydl optimize example.c     measures the best few, writes the fastest to example.polydl.c
 *
 * Take out the comments and put your own loops in: `polydl why` lists what polydl refuses, and what to write instead.
 */

/* Sizes may be macros: they can be changed on the command line, as in -D BATCH=256. Parameters of the function can be
 * sizes too; then say what to tune for, as in --size n=1000. The output is right for other values as well. */
#ifndef BATCH
#define BATCH 128
#endif
#ifndef OUT
#define OUT 96
#endif
#ifndef IN
#define IN 160
#endif

/* `restrict` promises that the arrays do not overlap. Without it polydl takes that for granted, and says so. */
void layer(const float x[restrict BATCH][IN], const float W[restrict IN][OUT], const float b[restrict OUT],
           float y[restrict BATCH][OUT])
{
    /* What polydl may change stands between these two pragmas. There may be several such regions in a file. */
#pragma scop
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < OUT; j++)
            y[i][j] = b[j];
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < OUT; j++)
            for (int k = 0; k < IN; k++)
                y[i][j] += x[i][k] * W[k][j];
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < OUT; j++)
            y[i][j] = y[i][j] > 0 ? y[i][j] : 0;
#pragma endscop
}

/* More pragmas, for inside of a region (a line can be continued with a backslash):
 *
 *     #pragma polydl assume(n >= 1 && n % 16 == 0)         what is known about parameters
 *     #pragma polydl live_out(y)                           of all arrays, only y is read afterwards
 *     #pragma polydl dead(T)                               T is not read afterwards
 *     #pragma polydl microkernel call(f(&A[i][0], …))      the loops below are what your own function f computes
 */
