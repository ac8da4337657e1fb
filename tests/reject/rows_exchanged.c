// expect: 6:9: a row of 'row' is used as a whole
// expect: 7:9: a row of 'row' is used as a whole
void f(int n, int k, int p, double **row) {
    for (int i = 0; i < n; i++) {
        double *r = row[k];
        row[k] = row[p];
        row[p] = r;
        row[k][i] += 1.0;
    }
}
