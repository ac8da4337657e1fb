/* A row buffer outside of the loops that two statements fill, one of them the ends. */
void median_of_three(int rows, int columns, const float in[restrict rows][columns], float out[restrict rows][columns])
{
    float padded[4100];
    for (int i = 0; i < rows; i++) {
        padded[0] = in[i][0];
        padded[columns + 1] = in[i][columns - 1];
        for (int j = 0; j < columns; j++)
            padded[j + 1] = in[i][j];
        for (int j = 0; j < columns; j++) {
            float a = padded[j], b = padded[j + 1], c = padded[j + 2];
            float low = a < b ? a : b, high = a < b ? b : a;
            out[i][j] = c < low ? low : c > high ? high : c;
        }
    }
}
