"""What small functions of C compute: by the interpreter of the core, by that of C, and by hand."""

from __future__ import annotations

import pytest

from polydl.frontend.typed.interpret import Machine, Memory, Undefined
from polydl.frontend.typed.shown import shown
from polydl.frontend.typed.verified import verify
from polydl.oracle import c_memory, c_verdicts, interpreter
from polydl.oracle.c_program import parse
from tests.frontend.typed.comparing import opaque
from tests.frontend.typed.reading import core_of

CASES = {
    "promotion": ("int f(unsigned char a, unsigned char b) { return a + b; }", (200, 100), 300),
    "narrowing": ("int f(int a) { unsigned char c = a; signed char d = a; return c * 1000 + d; }", (200,), 199944),
    "unsigned wrap": ("unsigned f(unsigned a) { return a * 2654435761u; }", (3,), 3 * 2654435761 % 2**32),
    "unsigned observed": (
        "float f(unsigned i) { return (float)((i * 2654435761u) >> 16); }",
        (5,),
        float(5 * 2654435761 % 2**32 >> 16),
    ),
    "comparison of signs": ("int f(int a, unsigned b) { return a < b; }", (-1, 1), 0),
    "shift keeps the left type": ("long f(int a, long b) { return a << b; }", (1, 4), 16),
    "division to zero": ("int f(int a, int b) { return a / b * 100 + a % b; }", (-7, 2), -301),
    "truth": ("int f(double a) { _Bool b = a; return b + !a * 10 + !!a; }", (0.25,), 2),
    "float is rounded": ("float f(float a, float b) { return a + b; }", (16777216.0, 1.0), 16777216.0),
    "double product of floats": ("double f(float a) { return (double)a * a; }", (1.5,), 2.25),
    "float to integer": ("int f(double a) { return (int)a; }", (-2.75,), -2),
    "comma": ("int f(int a) { int b; return b = a + 1, b * b; }", (3,), 16),
    "old value": ("int f(int a) { int b = a++; return b * 10 + a; }", (3,), 34),
    "new value": ("int f(int a) { int b = --a; return b * 10 + a; }", (3,), 22),
    "value of an assignment": ("int f(int a) { unsigned char c; int b = c = a; return b; }", (300,), 44),
    "chain": ("double f(void) { int i; double d; d = i = 3.7; return d; }", (), 3.0),
    "short circuit": ("int f(int a) { int n = 0; a && n++; a || (n += 10); return n; }", (0,), 10),
    "short circuit guards": ("int f(int a, int b) { return b && a / b > 1; }", (5, 0), 0),
    "choice guards": ("int f(int a, int b) { return b ? a / b : -1; }", (5, 0), -1),
    "choice converts": ("double f(int a) { return a ? 1 : 2.5; }", (1,), 1.0),
    "unsigned choice": ("int f(int a) { return (a ? -1 : 0u) > 0; }", (1,), 1),
    "effects in a choice": ("int f(int a) { int x = 1, y = 2; a ? x++ : y++; return x * 10 + y; }", (0,), 13),
    "effects in an index": (
        "int f(int a) { int t[3] = {1, 2, 3}, i = 0; t[i++] += a; return t[0] * 100 + i; }",
        (4,),
        501,
    ),
    "compound place once": (
        (
            "int g(int *n) { return (*n)++; } int f(int a) { int t[2] = {5, 6}, n = 0; t[g(&n)] += a;"
            " return t[0] * 10 + n; }"
        ),
        (1,),
        61,
    ),
    "shadowing": ("int f(int a) { int b = a; { int a = 5; b += a; { int b = 100; a += b; } } return b; }", (1,), 6),
    "loop variable again": ("int f(int i) { int s = i; for (int i = 0; i < 3; i++) s += i; return s + i; }", (10,), 23),
    "continue": (
        "int f(int n) { int s = 0; for (int i = 0; i < n; i++) { if (i % 2) continue; s += i; } return s; }",
        (7,),
        12,
    ),
    "break": ("int f(int n) { int i; for (i = 0;; i++) if (i * i > n) break; return i; }", (30,), 6),
    "do": ("int f(int n) { int s = 0; do { if (n == 3) continue; s += n; } while (--n > 0); return s; }", (5,), 12),
    "condition with effects": ("int f(int n) { int s = 0; while (n-- > 0) s++; return s * 10 + n; }", (4,), 39),
    "for without parts": ("int f(int n) { for (;;) { if (!n--) return n; } }", (4,), -1),
    "two dimensions": (
        (
            "int f(int n) { int a[2][3]; for (int i = 0; i < 6; i++) a[i / 3][i % 3] = i;"
            " return *(*(a + 1) + 2) + n[a[0]]; }"
        ),
        (1,),
        6,
    ),
    "array of variable length": (
        "long f(int n) { long a[n][2]; int m = n; n = 99; a[m - 1][1] = 7; return sizeof a * 10 + a[m - 1][1]; }",
        (3,),
        487,
    ),
    "row of variable length": (
        "int f(int n) { int t[6] = {0, 1, 2, 3, 4, 5}; int (*p)[n] = (int (*)[n])t; n = 1; return p[1][0]; }",
        (3,),
        3,
    ),
    "pointer walk": (
        "int f(int n) { int t[4] = {1, 2, 3, 4}, s = 0; for (int *p = t; p < t + n; ++p) s += *p; return s; }",
        (4,),
        10,
    ),
    "pointer difference": ("long f(int n) { double t[9]; double *p = &t[n], *q = t + 8; return q - p; }", (3,), 5),
    "pointer back": (
        "int f(int n) { int t[4] = {1, 2, 3, 4}; int *p = t + 3; p -= n; return p[-1] * 10 + *p; }",
        (1,),
        23,
    ),
    "address of a variable": ("int f(int n) { int *p = &n; *p += 2; return n; }", (3,), 5),
    "pointer to pointer": ("int f(int n) { int a = n, *p = &a, **q = &p; **q = 9; return a; }", (3,), 9),
    "members": (
        (
            "struct s { char c; double d; short h[3]; }; int f(int n) { struct s a[2], *p = a + 1; p->h[n] = 7;"
            " a[1].d = 2.5;"
            " return p->h[n] * 100 + (int)(p->d * 2) * 10 + (sizeof(struct s) == 24); }"
        ),
        (2,),
        751,
    ),
    "structures by value": (
        (
            "struct s { int a, b; }; struct s g(struct s x) { x.a += 1; return x; }"
            " int f(int n) { struct s y = {n, 2}, z; z = g(y); return z.a * 100 + y.a * 10 + g(z).b; }"
        ),
        (3,),
        432,
    ),
    "bytes of a union": (
        "unsigned f(float x) { union { float f; unsigned u; } v; v.f = x; return v.u; }",
        (1.0,),
        0x3F800000,
    ),
    "anonymous members": (
        "int f(int n) { struct { int a; union { int b; float c; }; } s; s.b = n; s.a = 1; return s.b; }",
        (4,),
        4,
    ),
    "initialisers": (
        (
            "int f(int n) { int t[5] = {[1] = 7, 8}, u[2][2] = {1, 2, 3};"
            " return t[2] * 100 + t[4] + u[1][0] * 10 + u[1][1]; }"
        ),
        (0,),
        830,
    ),
    "designated members": (
        "struct p { int x, y[2]; }; int f(int n) { struct p a = {.y = {1, n}, .x = 5}; return a.x * 100 + a.y[1]; }",
        (7,),
        507,
    ),
    "members of members": (
        (
            "struct p { int x; struct { int y[2]; } in; union { int u; float v; }; };"
            " int f(int n) { struct p a = {.in.y[1] = n, .u = 3, .x = 2}; return a.x * 100 + a.in.y[1] * 10 + a.u; }"
        ),
        (7,),
        273,
    ),
    "selection by type": (
        "int f(float x) { return _Generic(x, float: 1, default: 2) * 10 + _Generic(1, double: 3, default: 4); }",
        (1.0,),
        14,
    ),
    "type of an expression": (
        "double f(int n) { typeof(n + 1.0) a = n / 2; __auto_type b = a; b += .5; return b; }",
        (3,),
        1.5,
    ),
    "switch": (
        (
            "int f(int n) { int s = 0; for (int i = 0; i < n; i++) switch (i) { case 2: case 3: s += 1; break;"
            " case 0: s += 10; default: s += 100; break;"
            " case 5: { s += 1000; continue; } case 6: return s; } return -s; }"
        ),
        (9,),
        1312,
    ),
    "switch of a byte": ("int f(unsigned char c) { switch (c++) { case 255: return c; } return 300; }", (255,), 0),
    "compound literal": (
        "struct p { int x, y; }; int f(int n) { struct p *q = &(struct p){n, 4}; return q->x * q->y; }",
        (3,),
        12,
    ),
    "text": (
        'int f(int n) { const char *s = "ab\\n"; char t[] = "xyz"; return s[n] * 1000 + sizeof t * 100 + t[1]; }',
        (2,),
        10000 + 400 + 121,
    ),
    "memset and memcpy": (
        (
            "#include <string.h>\nint f(int n) { int a[4], b[4]; memset(a, 1, sizeof a);"
            " memcpy(b + 1, a, n * sizeof(int)); return b[2]; }"
        ),
        (2,),
        0x01010101,
    ),
    "memcpy of what it changes": (
        (
            "#include <string.h>\nint f(int n) { int q[3] = {1, 5, 6}, p[3] = {2, 0, 0};"
            " memcpy(p, q, p[0] * sizeof(int)); return p[1] * 10 + p[2]; }"
        ),
        (0,),
        50,
    ),
    "argument by value": (
        (
            "void put(int *a, int at, int *k) { k[0] = 1; a[at] = 9; } int f(int n) { int a[2] = {0, 0}, k[1] = {0};"
            " put(a, k[0], k); return a[0] * 10 + a[1]; }"
        ),
        (0,),
        90,
    ),
    "recursion": ("int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }", (10,), 55),
    "static": ("int g(void) { static int n = 5; return n++; } int f(int a) { g(); return g() + a; }", (1,), 7),
    "globals": ("int n = 3; static int t[2]; int f(int a) { t[1] += a; n *= 2; return n * 10 + t[1]; }", (1,), 61),
    "global and local": (
        "int n = 3; int f(int a) { int m = n; { extern int n; n += a; } return n * 10 + m; }",
        (2,),
        53,
    ),
    "enumeration": ("enum e { A, B = 5, C }; int f(int n) { enum e x = C; int A = n; return x * 10 + A; }", (2,), 62),
    "typedef hidden": ("typedef int t; int f(int n) { t a = n; { int t = 2; a += t; } return a; }", (2,), 4),
    "pointer to function": (
        "int g(int a) { return a * 2; } int f(int n) { int (*p)(int) = g; return p(n) + (*p)(1); }",
        (4,),
        10,
    ),
    "library": (
        "#include <math.h>\ndouble f(double x) { return fmax(sqrt(x), floorf(1.5f)) + fabs(-x); }",
        (4.0,),
        6.0,
    ),
    "library converts": ("#include <math.h>\nfloat f(int x) { return sqrtf(x) + ldexpf(1, x); }", (4,), 18.0),
    "literals": (
        "double f(int n) { return 0x1.8p1 + 1e1 + .5f + 'a' + 017 + 0x10u + 3000000000; }",
        (0,),
        3.0 + 10 + 0.5 + 97 + 15 + 16 + 3e9,
    ),
    "octal characters": ("int f(int n) { return '\\101' + '\\x7f' + '\\0' + '\\377'; }", (0,), 65 + 127 - 1),
    "volatile": ("int f(int n) { volatile int v = n; v++; return v; }", (2,), 3),
    "sizes": ("long f(int n) { int t[7]; return sizeof t / sizeof *t * 10 + sizeof(n ? 1 : 2L); }", (0,), 78),
    "casts of pointers": ("int f(int n) { int a = 0x01020304; return ((unsigned char *)&a)[n]; }", (1,), 3),
    "numbers of pointers": ("int f(int n) { int t[4]; long a = (long)t, b = (long)(t + n); return b - a; }", (3,), 12),
    "null": ("int f(int n) { int *p = n ? &n : 0; return p == 0 ? 1 : p != (void *)0 && *p; }", (3,), 1),
    "label alone": ("int f(int n) { int a = n; here: a++; return a; }", (3,), 4),
    "half": ("float f(float a) { _Float16 h = a, g = a; h = h * g; return h; }", (1.0009765625,), 1.001953125),
}


@pytest.mark.parametrize("name", CASES)
def test_meaning(name: str) -> None:
    text, given, expected = CASES[name]
    core = core_of(text)
    verify(core)
    assert not core.refused and not list(opaque(core.functions["f"].body)), shown(core.functions["f"])
    assert Machine(core, Memory(), {}).call("f", given) == expected


OURS = {"selection by type", "type of an expression", "members of members"}
"""What the interpreter of C does not read."""


@pytest.mark.parametrize("name", sorted(CASES.keys() - OURS))
def test_the_interpreter_of_c_agrees(name: str) -> None:
    text, given, expected = CASES[name]
    plain = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    declared = "double fmax(double, double), sqrt(double), fabs(double);"
    declared += " float floorf(float), sqrtf(float), ldexpf(float, int);"
    memcpy = "void *memset(void *, int, unsigned long), *memcpy(void *, const void *, unsigned long);"
    program = parse(f"{declared if 'math' in text else ''}{memcpy if 'string' in text else ''}\n{plain}\n")
    assert interpreter.call(program, "f", list(given), c_memory.Memory()).value == expected


UNDEFINED = {
    "overflow": ("int f(int a) { return a + 1; }", (2**31 - 1,)),
    "division": ("int f(int a) { return 1 / a; }", (0,)),
    "least by minus one": ("int f(int a) { return a / -1; }", (-(2**31),)),
    "shift": ("int f(int a) { return 1 << a; }", (32,)),
    "conversion": ("int f(double a) { return a; }", (3e9,)),
    "no value": ("int f(int a) { int b; if (a) b = 1; return b; }", (0,)),
    "no value again": (
        "int f(int a) { int s = 0; for (int i = 0; i < 2; i++) { int b; if (!i) b = 1; s += b; } return s; }",
        (0,),
    ),
    "element without a value": ("int f(int a) { int t[2]; t[0] = a; return t[1]; }", (0,)),
    "bounds": ("int f(int a) { int t[2] = {0, 0}; return t[a]; }", (2,)),
    "bounds of a row": ("int f(int a) { int t[2][2] = {{0}}; return t[0][a]; }", (3,)),
    "null": ("int f(int a) { int *p = 0; return *p; }", (2,)),
    "lifetime": ("int *g(void) { int a[1] = {1}; return a; } int f(int a) { return *g(); }", (2,)),
    "memcpy overlaps": (
        (
            "void *memcpy(void *, const void *, unsigned long); int f(int a) { int t[3] = {0};"
            " memcpy(t, t + 1, 8); return 0; }"
        ),
        (2,),
    ),
    "pointers apart": ("int f(int n) { int a, b; return &a < &b; }", (2,)),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_undefined(name: str) -> None:
    text, given = UNDEFINED[name]
    core = core_of(text)
    verify(core)
    with pytest.raises(Undefined):
        Machine(core, Memory(), {}).call("f", given)
    with pytest.raises(c_verdicts.Undefined):
        interpreter.call(parse(text), "f", list(given), c_memory.Memory())
