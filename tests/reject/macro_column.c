// expect: 6:30: the subscript is not affine: it multiplies 'i'
#define N 1000
#define SQUARE(x) ((x) * (x))
void f(float A[N]) {
#pragma scop
	for (int i = 0; i < N; i++) A[SQUARE(i - 5)] = 0.0f;
#pragma endscop
}
