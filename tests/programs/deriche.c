/* Recursive edge filter: passes to the right, left, down and up. */
#ifndef W
#define W 50
#endif
#ifndef H
#define H 44
#endif

void deriche(const float in[restrict W][H], float out[restrict W][H], float y1[restrict W][H], float y2[restrict W][H])
{
    float xm1, ym1, ym2, xp1, xp2, yp1, yp2, tm1, tp1, tp2;
    const float a1 = 0.19f, a2 = -0.11f, a3 = 0.13f, a4 = -0.12f, b1 = 0.97f, b2 = -0.6f;
#pragma scop
    for (int i = 0; i < W; i++) {
        ym1 = 0.0f;
        ym2 = 0.0f;
        xm1 = 0.0f;
        for (int j = 0; j < H; j++) {
            y1[i][j] = a1 * in[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
            xm1 = in[i][j];
            ym2 = ym1;
            ym1 = y1[i][j];
        }
    }
    for (int i = 0; i < W; i++) {
        yp1 = 0.0f;
        yp2 = 0.0f;
        xp1 = 0.0f;
        xp2 = 0.0f;
        for (int j = H - 1; j >= 0; j--) {
            y2[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
            xp2 = xp1;
            xp1 = in[i][j];
            yp2 = yp1;
            yp1 = y2[i][j];
        }
    }
    for (int i = 0; i < W; i++)
        for (int j = 0; j < H; j++)
            out[i][j] = y1[i][j] + y2[i][j];
    for (int j = 0; j < H; j++) {
        tm1 = 0.0f;
        ym1 = 0.0f;
        ym2 = 0.0f;
        for (int i = 0; i < W; i++) {
            y1[i][j] = a1 * out[i][j] + a2 * tm1 + b1 * ym1 + b2 * ym2;
            tm1 = out[i][j];
            ym2 = ym1;
            ym1 = y1[i][j];
        }
    }
    for (int j = 0; j < H; j++) {
        tp1 = 0.0f;
        tp2 = 0.0f;
        yp1 = 0.0f;
        yp2 = 0.0f;
        for (int i = W - 1; i >= 0; i--) {
            y2[i][j] = a3 * tp1 + a4 * tp2 + b1 * yp1 + b2 * yp2;
            tp2 = tp1;
            tp1 = out[i][j];
            yp2 = yp1;
            yp1 = y2[i][j];
        }
    }
    for (int i = 0; i < W; i++)
        for (int j = 0; j < H; j++)
            out[i][j] = y1[i][j] + y2[i][j];
#pragma endscop
}
