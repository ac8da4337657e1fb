/* As conv.c, with an IMAGE and a FILTER of small types, whose VALUEs are multiplied, and SUMs. A block that has all
   channels is channels-last. */
#ifndef DILATION
#define DILATION 1
#endif
#define IFH ((OFH - 1) * STRIDE_H + (KH - 1) * DILATION + 1)
#define IFW ((OFW - 1) * STRIDE_W + (KW - 1) * DILATION + 1)

void conv2d(SUM output[restrict NIMG][NOFM / OFM_BLOCK][OFH][OFW][OFM_BLOCK],
            const IMAGE input[restrict NIMG][NIFM / IFM_BLOCK][IFH][IFW][IFM_BLOCK],
            const FILTER filter[restrict NOFM / OFM_BLOCK][NIFM / IFM_BLOCK][KH][KW][IFM_BLOCK][OFM_BLOCK])
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
