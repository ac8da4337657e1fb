/* Iterations until the point escapes: data end the innermost loop. */
void mandelbrot(int counts[N][M])
{
    for (int y = 0; y < N; y++)
        for (int x = 0; x < M; x++) {
            double cr = 3.0 * x / M - 2.0, ci = 2.0 * y / N - 1.0;
            double zr = 0, zi = 0;
            int steps = 0;
            while (zr * zr + zi * zi < 4.0 && steps < 50) {
                double t = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = t;
                steps++;
            }
            counts[y][x] = steps;
        }
}
