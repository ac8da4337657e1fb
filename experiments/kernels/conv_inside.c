/* conv.c with the padding inside: the input is the image as it is, and what lies beyond it is left out. The output is
   overwritten, as oneDNN does. */
#ifndef DILATION
#define DILATION 1
#endif

void conv2d(float output[restrict NIMG][NOFM / OFM_BLOCK][OFH][OFW][OFM_BLOCK],
            const float input[restrict NIMG][NIFM / IFM_BLOCK][IFH][IFW][IFM_BLOCK],
            const float filter[restrict NOFM / OFM_BLOCK][NIFM / IFM_BLOCK][KH][KW][IFM_BLOCK][OFM_BLOCK])
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
                            for (int oi = 0; oi < OFW; ++oi) {
                                int ij = oj * STRIDE_H + kj * DILATION - PAD_H;
                                int ii = oi * STRIDE_W + ki * DILATION - PAD_W;
                                if (ij >= 0 && ij < IFH && ii >= 0 && ii < IFW)
                                    for (int ofm = 0; ofm < OFM_BLOCK; ++ofm)
                                        for (int ifm = 0; ifm < IFM_BLOCK; ++ifm)
                                            output[img][ofm_tile][oj][oi][ofm] +=
                                                filter[ofm_tile][ifm_tile][kj][ki][ifm][ofm]
                                                * input[img][ifm_tile][ij][ii][ifm];
                            }
#pragma endscop
}
