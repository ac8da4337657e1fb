void running_sum(float total[restrict N], const float x[restrict N])
{
    float sum = 0.0f;
    for (int i = 0; i < N; i++) {
        sum += x[i];
        total[i] = sum;
    }
}
