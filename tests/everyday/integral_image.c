/* Sums of all pixels above and to the left. */
void integral_image(int n, int m, const unsigned char *img, unsigned *sat)
{
    for (int i = 0; i < n; i++) {
        unsigned run = 0;
        for (int j = 0; j < m; j++) {
            run += img[i * m + j];
            sat[i * m + j] = run + (i > 0 ? sat[(i - 1) * m + j] : 0);
        }
    }
}
