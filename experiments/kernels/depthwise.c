/* A depthwise convolution: every channel by itself, channels in blocks. The output is overwritten. */
#ifndef DILATION
#define DILATION 1
#endif
#define IFH ((OFH - 1) * STRIDE_H + (KH - 1) * DILATION + 1)
#define IFW ((OFW - 1) * STRIDE_W + (KW - 1) * DILATION + 1)

void conv2d(float output[restrict NIMG][NOFM / OFM_BLOCK][OFH][OFW][OFM_BLOCK],
            const float input[restrict NIMG][NOFM / OFM_BLOCK][IFH][IFW][OFM_BLOCK],
            const float filter[restrict NOFM / OFM_BLOCK][KH][KW][OFM_BLOCK])
{
#pragma scop
    for (int img = 0; img < NIMG; ++img)
        for (int tile = 0; tile < NOFM / OFM_BLOCK; ++tile)
            for (int oj = 0; oj < OFH; ++oj)
                for (int oi = 0; oi < OFW; ++oi)
                    for (int c = 0; c < OFM_BLOCK; ++c) {
                        output[img][tile][oj][oi][c] = 0;
                        for (int kj = 0; kj < KH; ++kj)
                            for (int ki = 0; ki < KW; ++ki)
                                output[img][tile][oj][oi][c] +=
                                    filter[tile][kj][ki][c]
                                    * input[img][tile][oj * STRIDE_H + kj * DILATION][oi * STRIDE_W + ki * DILATION][c];
                    }
#pragma endscop
}
