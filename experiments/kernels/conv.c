/* The blocked convolution of the PolyDL paper with a block size for each side, so that every channel count has one.
   The input is padded beforehand; the output is overwritten, as oneDNN does. */
#ifndef DILATION
#define DILATION 1
#endif
#define IFH ((OFH - 1) * STRIDE_H + (KH - 1) * DILATION + 1)
#define IFW ((OFW - 1) * STRIDE_W + (KW - 1) * DILATION + 1)

void conv2d(float output[restrict NIMG][NOFM / OFM_BLOCK][OFH][OFW][OFM_BLOCK],
            const float input[restrict NIMG][NIFM / IFM_BLOCK][IFH][IFW][IFM_BLOCK],
            const float filter[restrict NOFM / OFM_BLOCK][NIFM / IFM_BLOCK][KH][KW][IFM_BLOCK][OFM_BLOCK])
{
    int img, ofm_tile, ifm_tile, oj, kj, ki, oi, ofm, ifm, ij, ii;
#pragma scop
    for (img = 0; img < NIMG; ++img) {
        for (ofm_tile = 0; ofm_tile < NOFM / OFM_BLOCK; ++ofm_tile) {
            for (oj = 0; oj < OFH; ++oj) {
                for (oi = 0; oi < OFW; ++oi) {
                    for (ofm = 0; ofm < OFM_BLOCK; ++ofm) {
                        output[img][ofm_tile][oj][oi][ofm] = 0;
                    }
                }
            }
        }
    }
    for (img = 0; img < NIMG; ++img) {
        for (ofm_tile = 0; ofm_tile < NOFM / OFM_BLOCK; ++ofm_tile) {
            for (ifm_tile = 0; ifm_tile < NIFM / IFM_BLOCK; ++ifm_tile) {
                for (oj = 0; oj < OFH; ++oj) {
                    ij = oj * STRIDE_H;
                    for (kj = 0; kj < KH; ++kj) {
                        for (ki = 0; ki < KW; ++ki) {
                            for (oi = 0; oi < OFW; ++oi) {
                                ii = oi * STRIDE_W;
                                for (ofm = 0; ofm < OFM_BLOCK; ++ofm) {
                                    for (ifm = 0; ifm < IFM_BLOCK; ++ifm) {
                                        output[img][ofm_tile][oj][oi][ofm] +=
                                            filter[ofm_tile][ifm_tile][kj][ki][ifm][ofm]
                                            * input[img][ifm_tile][ij + kj * DILATION][ii + ki * DILATION][ifm];
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
#pragma endscop
}
