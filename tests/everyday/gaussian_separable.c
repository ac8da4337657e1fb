/* 5-tap binomial filter, first along the rows and then along the columns. */
static float tmp[H][W];
static const float kernel[5] = { 0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f };

void gaussian_separable(float image[H][W])
{
	int x, y, k;

	for (y = 0; y < H; y++)
		for (x = 2; x < W - 2; x++) {
			float acc = 0;
			for (k = -2; k <= 2; k++)
				acc += kernel[k + 2] * image[y][x + k];
			tmp[y][x] = acc;
		}
	for (y = 2; y < H - 2; y++)
		for (x = 2; x < W - 2; x++) {
			float acc = 0;
			for (k = -2; k <= 2; k++)
				acc += kernel[k + 2] * tmp[y + k][x];
			image[y][x] = acc;
		}
}
