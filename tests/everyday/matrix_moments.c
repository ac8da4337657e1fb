/* Sum, sum of squares and greatest magnitude of a whole matrix. */
#include <math.h>

void matrix_moments(int m, int n, const double x[restrict m][n], double moments[restrict 3])
{
    double sum = 0, squares = 0, greatest = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            sum += x[i][j];
            squares += x[i][j] * x[i][j];
            if (fabs(x[i][j]) > greatest)
                greatest = fabs(x[i][j]);
        }
    moments[0] = sum;
    moments[1] = squares;
    moments[2] = greatest;
}
