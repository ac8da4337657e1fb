"""The text of cores: what C's rules make of small functions, and that names and spellings leave no trace."""

from __future__ import annotations

import pytest

from polydl.frontend.typed.shown import objects_shown, shown
from polydl.frontend.typed.verified import verify
from tests.frontend.typed.reading import core_of


def text_of(code: str, *, names: bool = True) -> str:
    core = core_of(code)
    verify(core)
    assert not core.refused
    return shown(core.functions["f"], names=names)


def body(code: str) -> list[str]:
    return [line.strip() for line in text_of(code).split("\n")[1:-1]]


GOLDEN = {
    "void f(float *a, double b, int i) { a[i] = a[i + 1] * b; }": [
        "%0 = load a.1[(i +i32 1) * 4]:f32",
        "store a.1[i * 4]:f32 = f32((f64(%0) *f64 b))",
    ],
    "void f(unsigned char *a, short b, int i) { a[i++] += b; }": [
        "%0 = i",
        "i = (%0 +i32 1)",
        "%1 = load a.1[%0 * 1]:u8",
        "store a.1[%0 * 1]:u8 = u8((i32(%1) +i32 i32(b)))",
    ],
    "int g(int); void f(int *a, int x) { a[0] = g(x) && x > 1; }": [
        "%0 = call g(x)",
        "store a.1:i32 = ((%0 !=i32 0) ? (x >i32 1) : 0)",
    ],
    "int g(int); void f(int *a, int x) { a[0] = x > 1 && g(x); }": [
        "%0 = if (x >i32 1)",
        "%1 = call g(x)",
        "yield (%1 !=i32 0)",
        "else",
        "yield 0",
        "store a.1:i32 = %0",
    ],
    "int f(int a, int b) { return b ? a / b : a; }": [
        "%0 = if (b !=i32 0)",
        "yield (a /i32 b)",
        "else",
        "yield a",
        "return %0",
    ],
    "int f(int a, long b) { return b ? a : b; }": ["return i32(((b !=i64 0:i64) ? i64(a) : b))"],
    "void f(int n, int m, double a[n][m], int i) { n = 0; a[i][2] = n; }": [
        "%0 = i64(n)",
        "n = 0",
        "store a.1[i * (i64(m) *i64 8)][2 * 8 < i64(m)]:f64 = f64(n)",
    ],
    "struct s { char c; struct { int x[4]; } in; struct s *next; }; int f(struct s *p, int i) {"
    " return p->next->in.x[i]; }": [
        "%0 = load p.1.24:struct<32>*",
        "%1 = load *%0.4.0[i * 4 < 4]:i32",
        "return %1",
    ],
    "void f(float *a, int n) { float *q = a + n; *q++ = 1; }": [
        "q = &a.1[n * 4]:f32",
        "%0 = q",
        "q = &*%0[1 * 4]:f32",
        "store *%0:f32 = 1.0:f32",
    ],
    "int f(float *a, unsigned n) { return ((unsigned *)a)[n] >> 3; }": [
        "%0 = load a.1[n * 4]:u32",
        "return i32((%0 >>u32 3))",
    ],
    "void *memset(void *, int, unsigned long); void f(int n, double *a) { memset(a + 1, 0, n * sizeof *a); }": [
        "fill a.1[1 * 8]:f64 = 0, (u64(n) *u64 8) bytes",
    ],
    "int f(volatile int *a) { return *a + *a; }": [
        "%0 = load a.1:i32 volatile",
        "%1 = load a.1:i32 volatile",
        "return (%0 +i32 %1)",
    ],
    "#include <math.h>\nfloat f(int i) { return sinf(i) * 2; }": ["return (sinf(f32(i)) *f32 2.0:f32)"],
    "void f(int n) { for (int i = 0; i < n; i++) { if (i == 3) continue; n--; } }": [
        "i = 0",
        "loop",
        "while (i <i32 n)",
        "if (i ==i32 3)",
        "continue",
        "n = (n -i32 1)",
        "step",
        "i = (i +i32 1)",
    ],
}


@pytest.mark.parametrize("code", GOLDEN)
def test_golden(code: str) -> None:
    assert body(code) == GOLDEN[code]


SAME = {
    "renamed": (
        "void f(int n, float *x) { for (int i = 0; i < n; i++) { int k = i; x[k] = 1; } }",
        "void f(int k, float *n) { for (int x = 0; x < k; x++) { int i = x; n[i] = 1; } }",
    ),
    "an inner name like an outer one": (
        "int f(int n) { int a = n; { int b = 2; n += b; } return a; }",
        "int f(int n) { int a = n; { int a = 2; n += a; } return a; }",
    ),
    "an unused declaration": (
        "int f(int n) { int a = n; return a + 1; }",
        "int f(int n) { int z, y[7]; struct q { int b; } c; typedef int t; int a = n; int g(int); return a + 1; }",
    ),
    "braces": (
        "int f(int n) { int a = n; if (n) a++; for (; n < 3; n++) a += n; return a; }",
        "int f(int n) { { int a = n; { if (n) {{ a++; }} for (; n < 3; n++) { a += n; } ; } return a; } }",
    ),
    "for and while": (
        "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }",
        "int f(int n) { int s = 0; int i = 0; while (i < n) { s += i; i++; } return s; }",
    ),
    "subscripts": (
        "double f(int i, int j, double (*a)[5], int *k) { return a[i][j] + k[1]; }",
        "double f(int i, int j, double a[3][5], int k[]) { return *(*(a + i) + j) + 1[k]; }",
    ),
    "members": (
        "struct s { int a, b; }; int f(struct s *p, int i) { return p[i].b + p->a; }",
        "struct t { int x, y; }; int f(struct t *q, int i) { return (q + i)->y + (*q).x; }",
    ),
    "steps": (
        "int f(int i, unsigned char *c) { i++; c[i] += 2; i -= 3; return i; }",
        "int f(int i, unsigned char *c) { i = i + 1; c[i] = c[i] + 2; i = i - 3; return i; }",
    ),
    "conditions": (
        "int f(int i, float x, int *p) { if (i && !x) return p ? 1 : 2; return 3; }",
        "int f(int i, float x, int *p) { if (i != 0 && x == 0) return p != 0 ? 1 : 2; return 3; }",
    ),
    "addresses": (
        "int g(int *); int f(int *a, int i) { return g(&a[i]) + g(&*a) + *&a[2]; }",
        "int g(int *); int f(int *a, int i) { return g(a + i) + g(a) + a[2]; }",
    ),
    "names of types": (
        "#include <stdint.h>\ntypedef float real; uint32_t f(uint8_t a, real b) { return a + b; }",
        "unsigned f(unsigned char a, float b) { return (unsigned int)(a + b); }",
    ),
    "parentheses and comma": (
        "int f(int a) { int b; b = a; a = 2; return ((a)) + b; }",
        "int f(int a) { int b; (b = a, a = 2); return a + (b); }",
    ),
    "a conversion that C makes anyway": (
        "double f(float *a, int i) { return a[i] * i + 1; }",
        "double f(float *a, int i) { return a[i] * (float)i + 1.0f; }",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_spelled_otherwise(name: str) -> None:
    one, other = SAME[name]
    assert text_of(one, names=False) == text_of(other, names=False)


DIFFERENT = {
    "the order of loads": (
        "int f(int *a, int *b) { int x = *a; *b = 1; return x; }",
        "int f(int *a, int *b) { *b = 1; int x = *a; return x; }",
    ),
    "which variable": ("int f(int a, int b) { return a - b; }", "int f(int a, int b) { return b - a; }"),
    "the type": ("int f(int a, int b) { return a / b; }", "int f(unsigned a, unsigned b) { return a / b; }"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs(name: str) -> None:
    one, other = DIFFERENT[name]
    assert text_of(one, names=False) != text_of(other, names=False)


def test_the_same_each_time() -> None:
    code = next(iter(GOLDEN))
    assert text_of(code) == text_of(code)


def test_objects() -> None:
    core = core_of("struct s { int a[2]; }; static struct s x; double y[3][4]; int f(void) { static int z; return z; }")
    assert objects_shown(core.objects) == "x: struct<8>\ny: f64[4][3]\nz: i32\n"


def test_places_point_where_the_source_does() -> None:
    core = core_of("int f(int *a)\n{\n    a[0] = 1;\n    return a[2] +\n        a[3];\n}\n")
    spans = [(node.span.line, node.span.column) for node in core.functions["f"].body.items]
    assert spans == [(3, 5), (4, 12), (5, 9), (4, 5)]
