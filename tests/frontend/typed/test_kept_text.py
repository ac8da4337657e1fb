"""What the core keeps as text, and what it refuses."""

from __future__ import annotations

import pytest

from polydl.base.errors import InputError
from polydl.frontend.typed.verified import verify
from tests.frontend.typed.comparing import opaque
from tests.frontend.typed.reading import core_of

KEPT = {
    "int f(int n) { int a = 0; switch (n) { case 1: if (a) break; default: a = 3; } return a; }": (
        "'switch'",
        "n a",
        False,
    ),
    "int f(int n) { for (int i = 0; i < n; i++) switch (i) { case 1: do { case 2: return 4; } while (1); } }": (
        "'switch'",
        "i",
        True,
    ),
    "int f(int n) { int a = 0; again: a++; if (a < n) goto again; return a; }": ("'goto'", "a n", True),
    "int f(int n) { for (int i = 0; i < n; i++) if (i == 3) goto out; n = 2; out: return n; }": ("'goto'", "n", True),
    "struct s { int a : 3; }; int f(struct s *p, int n) { p->a = n; return n; }": (
        "the members of 'struct s', which are not known, packed by bits or aligned by hand",
        "p n",
        False,
    ),
    'int f(int n) { int a = n; __asm__ volatile("nop" : "+r"(a)); return a; }': (
        "assembly, or a statement within an expression",
        "a",
        False,
    ),
    "int f(int n) { int a = ({ int b = n; b + 1; }); return a; }": (
        "assembly, or a statement within an expression",
        "n a",
        False,
    ),
    "int setjmp(void *); int f(int n) { int b[9]; return setjmp(b) + n; }": ("'setjmp'", "b n", True),
    "int f(int n, ...) { __builtin_va_list l; __builtin_va_start(l, n); return n; }": None,
    "_Atomic int g; int f(int n) { g = n; return 1; }": ("'g', which is not declared here", "n", False),
    "int f(long double x) { return x > 0.1L; }": ("a literal that only a long double holds", "x", True),
}


@pytest.mark.parametrize("code", KEPT)
def test_kept(code: str) -> None:
    core = core_of(code)
    verify(core)
    assert not core.refused
    texts = list(opaque(core.functions["f"].body))
    wanted = KEPT[code]
    assert texts
    if wanted is not None:
        why, names, leaves = wanted
        assert [one.why for one in texts] == [why]
        assert sorted(one.name for one in texts[0].names) == sorted(names.split())
        assert texts[0].leaves is leaves


STRUCTURES = {
    "struct __attribute__((packed)) s { char c; float x; };": False,
    "struct s { char c; float x; } __attribute__((__packed__));": False,
    "struct s { char c; float x\n __attribute__((aligned(16))); };": False,
    "#pragma pack(1)\nstruct s { char c; float x; };": False,
    "struct s { char c; float x; };": True,
    "float t[4] __attribute__((aligned(64))); struct s { char c; float x; };": True,
    "struct s { char c; float x; }; struct t { int a; } __attribute__((packed));": True,
}


@pytest.mark.parametrize("declared", STRUCTURES)
def test_structures_that_attributes_lay_out(declared: str) -> None:
    core = core_of(f"{declared}\nvoid f(struct s *p) {{ p->x = 1; }}\n")
    verify(core)
    assert (list(opaque(core.functions["f"].body)) == []) is STRUCTURES[declared]


def test_what_stands_beside_is_read() -> None:
    core = core_of("int f(int n) { int a = n; switch (n) { case 1: if (n) break; a = 2; } return a + 1; }")
    assert [type(node).__name__ for node in core.functions["f"].body.items] == ["Assign", "Opaque", "Return"]


def test_gotos_join_statements() -> None:
    code = "int f(int n) { n++;\n again: n *= 2;\n int b = n;\n if (n < 9) goto again;\n return b; }"
    core = core_of(code)
    verify(core)
    text = next(opaque(core.functions["f"].body))
    assert text.span.line == 2
    assert text.text == "again: n *= 2;\n int b = n;\n if (n < 9) goto again;"
    assert {one.name for one in text.names} == {"n", "b"}
    assert [type(node).__name__ for node in core.functions["f"].body.items] == ["Assign", "Opaque", "Return"]


NO_ORDER = {
    "int f(int i) { return i++ + i; }": "'i'",
    "int f(int i, int *a) { a[i] = i++; return 0; }": "'i'",
    "int f(int i) { i = i++; return i; }": "'i'",
    "int f(int i) { return i++ * i++; }": "'i'",
    "int g(int, int); int f(int i) { return g(i, ++i); }": "'i'",
    "int f(int i, int *a) { a[i] = a[i]++; return 0; }": "'memory'",
    "int f(int i, int *a) { return a[1] + (a[1] = 2); }": "'memory'",
}


@pytest.mark.parametrize("code", NO_ORDER)
def test_no_order(code: str) -> None:
    core = core_of(code)
    error = core.refused["f"]
    assert isinstance(error, InputError)
    assert error.reason == f"{NO_ORDER[code]} is written and used in one expression, in no order"
    assert error.span is not None and error.span.line == 1


@pytest.mark.parametrize(
    "code",
    [
        "int f(int i) { return (i++, i); }",
        "int f(int i) { return i++ && i; }",
        "int f(int i) { i = i + 1; return i; }",
        "int f(int i) { i = (i++, i); return i; }",
        "int g(int); int f(int i) { i = g(i++); return i; }",
        "int f(int *p, int *q) { while ((*p++ = *q++)) ; return 0; }",
        "int f(int i, int j) { return i++ ? i : i + j; }",
    ],
)
def test_order(code: str) -> None:
    core = core_of(code)
    verify(core)
    assert not core.refused
