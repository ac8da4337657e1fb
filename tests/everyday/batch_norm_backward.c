void batch_norm_backward(const float dy[B][C][S], const float x[B][C][S], const float weight[C], const float mean[C],
                         const float rstd[C], float dx[B][C][S], float dweight[C], float dbias[C])
{
    for (int c = 0; c < C; c++) {
        float sum = 0.0f, dot = 0.0f;
        for (int b = 0; b < B; b++)
            for (int s = 0; s < S; s++) {
                sum += dy[b][c][s];
                dot += dy[b][c][s] * (x[b][c][s] - mean[c]);
            }
        dbias[c] = sum;
        dweight[c] = dot * rstd[c];
        const float k = dot * rstd[c] * rstd[c] / (B * S), m = sum / (B * S);
        for (int b = 0; b < B; b++)
            for (int s = 0; s < S; s++)
                dx[b][c][s] = (dy[b][c][s] - m - (x[b][c][s] - mean[c]) * k) * rstd[c] * weight[c];
    }
}
