/* As conv.c, with images and filters of small types. A block that has all channels is channels-last. */
#if DTYPE == 1 /* bf16 */
#include <polydl.h>
typedef polydl_bf16 left;
typedef polydl_bf16 right;
typedef float sum;
#define VALUE(x) polydl_to_float(x)
#elif DTYPE == 2 /* half */
typedef _Float16 left;
typedef _Float16 right;
typedef float sum;
#define VALUE(x) (float)(x)
#elif DTYPE == 3 /* u8s8 */
#include <stdint.h>
typedef uint8_t left;
typedef int8_t right;
typedef int32_t sum;
#define VALUE(x) (x)
#elif DTYPE == 4 /* s8s8 */
#include <stdint.h>
typedef int8_t left;
typedef int8_t right;
typedef int32_t sum;
#define VALUE(x) (x)
#elif DTYPE == 5 /* s16 */
#include <stdint.h>
typedef int16_t left;
typedef int16_t right;
typedef int32_t sum;
#define VALUE(x) (x)
#else
#error "DTYPE is 1 (bf16), 2 (half), 3 (u8s8), 4 (s8s8) or 5 (s16)"
#endif
#ifndef DILATION
#define DILATION 1
#endif
#define IFH ((OFH - 1) * STRIDE_H + (KH - 1) * DILATION + 1)
#define IFW ((OFW - 1) * STRIDE_W + (KW - 1) * DILATION + 1)

void conv2d(sum output[restrict NIMG][NOFM / OFM_BLOCK][OFH][OFW][OFM_BLOCK],
            const left input[restrict NIMG][NIFM / IFM_BLOCK][IFH][IFW][IFM_BLOCK],
            const right filter[restrict NOFM / OFM_BLOCK][NIFM / IFM_BLOCK][KH][KW][IFM_BLOCK][OFM_BLOCK])
{
#pragma scop
    for (int img = 0; img < NIMG; ++img)
        for (int ofm_tile = 0; ofm_tile < NOFM / OFM_BLOCK; ++ofm_tile)
            for (int oj = 0; oj < OFH; ++oj)
                for (int oi = 0; oi < OFW; ++oi)
                    for (int ofm = 0; ofm < OFM_BLOCK; ++ofm)
                        output[img][ofm_tile][oj][oi][ofm] = 0;
    for (int img = 0; img < NIMG; ++img)
        for (int ofm_tile = 0; ofm_tile < NOFM / OFM_BLOCK; ++ofm_tile)
            for (int ifm_tile = 0; ifm_tile < NIFM / IFM_BLOCK; ++ifm_tile)
                for (int oj = 0; oj < OFH; ++oj)
                    for (int kj = 0; kj < KH; ++kj)
                        for (int ki = 0; ki < KW; ++ki)
                            for (int oi = 0; oi < OFW; ++oi)
                                for (int ofm = 0; ofm < OFM_BLOCK; ++ofm)
                                    for (int ifm = 0; ifm < IFM_BLOCK; ++ifm)
                                        output[img][ofm_tile][oj][oi][ofm] +=
                                            VALUE(input[img][ifm_tile][oj * STRIDE_H + kj * DILATION]
                                                       [oi * STRIDE_W + ki * DILATION][ifm])
                                            * VALUE(filter[ofm_tile][ifm_tile][kj][ki][ifm][ofm]);
#pragma endscop
}
