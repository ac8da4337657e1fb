void complex_planes(int n, const float *ar, const float *ai, const float *br, const float *bi, float *cr, float *ci)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float re = 0.0f, im = 0.0f;
            for (int k = 0; k < n; k++) {
                float xr = ar[i * n + k], xi = ai[i * n + k];
                float yr = br[k * n + j], yi = bi[k * n + j];
                re += xr * yr - xi * yi;
                im += xr * yi + xi * yr;
            }
            cr[i * n + j] = re;
            ci[i * n + j] = im;
        }
}
