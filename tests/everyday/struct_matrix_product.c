typedef struct {
    int rows, cols;
    float *data;
} matrix;

void struct_matrix_product(const matrix *a, const matrix *b, matrix *c)
{
    for (int i = 0; i < c->rows; i++) {
        for (int j = 0; j < c->cols; j++) {
            float sum = 0.0f;
            for (int k = 0; k < a->cols; k++)
                sum += a->data[i * a->cols + k] * b->data[k * b->cols + j];
            c->data[i * c->cols + j] = sum;
        }
    }
}
