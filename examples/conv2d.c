/* The blocked convolution of the PolyDL paper: a direct convolution whose channels are split in blocks of GEMM_BLOCK,
   so that the three innermost loops are a matrix product. */
#ifndef GEMM_BLOCK
#define GEMM_BLOCK 64
#endif
#ifndef NIMG
#define NIMG 1
#endif
#ifndef NOFM
#define NOFM 64
#endif
#ifndef NIFM
#define NIFM 64
#endif
#ifndef OFH
#define OFH 56
#endif
#ifndef OFW
#define OFW 56
#endif
#ifndef KH
#define KH 3
#endif
#ifndef KW
#define KW 3
#endif
#ifndef STRIDE_H
#define STRIDE_H 1
#endif
#ifndef STRIDE_W
#define STRIDE_W 1
#endif
#define IFH ((OFH - 1) * STRIDE_H + KH)
#define IFW ((OFW - 1) * STRIDE_W + KW)

void conv2d(float output[restrict NIMG][NOFM / GEMM_BLOCK][OFH][OFW][GEMM_BLOCK],
            const float input[restrict NIMG][NIFM / GEMM_BLOCK][IFH][IFW][GEMM_BLOCK],
            const float filter[restrict NOFM / GEMM_BLOCK][NIFM / GEMM_BLOCK][KH][KW][GEMM_BLOCK][GEMM_BLOCK])
{
    int img, ofm_tile, ifm_tile, oj, kj, ki, oi, ofm, ifm, ij, ii;
#pragma scop
    for (img = 0; img < NIMG; ++img) {
        for (ofm_tile = 0; ofm_tile < NOFM / GEMM_BLOCK; ++ofm_tile) {
            for (ifm_tile = 0; ifm_tile < NIFM / GEMM_BLOCK; ++ifm_tile) {
                for (oj = 0; oj < OFH; ++oj) {
                    ij = oj * STRIDE_H;
                    for (kj = 0; kj < KH; ++kj) {
                        for (ki = 0; ki < KW; ++ki) {
                            for (oi = 0; oi < OFW; ++oi) {
                                ii = oi * STRIDE_W;
                                for (ofm = 0; ofm < GEMM_BLOCK; ++ofm) {
                                    for (ifm = 0; ifm < GEMM_BLOCK; ++ifm) {
                                        output[img][ofm_tile][oj][oi][ofm] +=
                                            filter[ofm_tile][ifm_tile][kj][ki][ifm][ofm]
                                            * input[img][ifm_tile][ij + kj][ii + ki][ifm];
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
