"""Programs that compute the same are one program behind the rewrites, however they are spelled: everyday programs, and
loops of each kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polydl import load
from polydl.model.expr import Expr, Load, is_zero, operands
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.rewrite.canonical import canonical
from tests.everyday.programs import PROGRAMS

FAMILIES = {
    "a product": (
        "gemm_fmaf", "gemm_two_sums", "gemm_unrolled", "gemm_flat", "gemm_descending", "gemm_remainder",
        "gemm_blocked_by_hand", "gemm_row_pairs", "struct_matrix_product", "loop_macros",
    ),
    "a product that is added": (
        "gemm_plain", "gemm_hoisted", "gemm_locals", "gemm_tiled", "gemm_row_pointers", "gemm_leading_dimensions",
    ),
    "a product with factors": ("gemm_alpha_beta", "gemm_blas_order", "gemm_blas_by_hand"),
    "softmax": ("softmax_plain", "softmax_rows"),
}  # fmt: skip
HEAD = "void f(const float x[100], const float y[100], const char use[100], float z[100], float out[2], int at[1])"
EACH = "for (int i = 0; i < 100; i++)"
SPELLINGS = {
    "a sum of products": (
        f"{EACH} s += x[i] * y[i];",
        f"{EACH} s = y[i] * x[i] + s;",
        "int i = 0; while (i < 100) { s += x[i] * y[i]; i++; }",
        f"const float *p = x, *q = y; {EACH} s += *p++ * *q++;",
        "for (const float *p = x, *q = y; p != x + 100; p++, q++) s += *p * *q;",
    ),
    "what is used": (
        f"{EACH} if (use[i]) {{ s += x[i]; k++; }}",
        f"{EACH} {{ if (!use[i]) continue; s += x[i]; k += 1; }}",
        f"{EACH} {{ if (use[i]) s += x[i]; if (use[i]) k++; }}",
    ),
    "the last of the least": (
        f"{EACH} if (x[i] - y[i] <= s) {{ s = x[i] - y[i]; k = i; }}",
        f"{EACH} {{ float d = x[i] - y[i]; if (d <= s) {{ k = i; s = d; }} }}",
    ),
    "elements": (
        f"{EACH} z[i] = x[i] > y[i] ? x[i] : y[i];",
        f"{EACH} {{ if (x[i] > y[i]) z[i] = x[i]; else z[i] = y[i]; }}",
        "const float *p = x, *q = y; float *r = z; while (r < z + 100) { *r++ = *p > *q ? *p : *q; p++; q++; }",
        "for (int k = 99; k >= 0; k--) z[k] = x[k] > y[k] ? x[k] : y[k];",
    ),
}
"""Of a float s, which is 0 in front, and an int k."""


def form(scop: Scop) -> list[tuple[object, ...]]:
    """The statements of a program behind the rewrites without names and order: how many loops each has, and what it
    computes of which elements."""
    return sorted((_of(s) for s in canonical(scop).scop.statements), key=repr)


def _of(statement: Statement) -> tuple[object, ...]:
    body = statement.body
    assert isinstance(body, Assignment)
    # Loops are called by their places in what is stored to, the others behind.
    target = str(statement.target.relation).split("->")[1]
    names = [name for name in statement.iterators if re.search(rf"\b{name}\b", target)]
    names.sort(key=lambda name: re.search(rf"\b{name}\b", target).start())  # type: ignore[union-attr]
    names += [name for name in statement.iterators if name not in names]
    numbers = {name: f"i{number}" for number, name in enumerate(names)}

    def element(access: Access) -> str:
        subscripts = str(access.relation.intersect_domain(statement.domain)).split("->", 1)[1].split(":")[0]
        subscripts = re.sub(r"\ba\d+ = ", "", subscripts.replace(access.array, "", 1)).strip(" }")
        return re.sub(r"\b[A-Za-z_]\w*", lambda word: numbers.get(word[0], word[0]), subscripts)

    def made(value: Expr) -> object:
        if is_zero(value):
            return 0
        if isinstance(value, Load):
            return element(statement.accesses[value.access])
        what = [getattr(value, name) for name in ("op", "text", "function") if hasattr(value, name)]
        parts = [made(one) for one in operands(value)]
        return type(value).__name__, *what, *(sorted(parts, key=repr) if what in (["+"], ["*"]) else parts)

    return statement.depth, body.op, element(statement.target), made(body.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_everyday_programs(family: str) -> None:
    forms = {}
    for name in FAMILIES[family]:
        entry = PROGRAMS[name]
        sizes = entry.sizes[-1]
        (scop,) = load(entry.path, defines=entry.defines(sizes), sizes=entry.parameters(sizes)).scops
        forms[name] = form(scop)
    first, *others = forms
    for other in others:
        assert forms[other] == forms[first], (first, other)


@pytest.mark.parametrize("family", SPELLINGS)
def test_spellings(family: str, tmp_path: Path) -> None:
    forms = []
    for number, body in enumerate(SPELLINGS[family]):
        path = tmp_path / f"s{number}.c"
        path.write_text(f"{HEAD}\n{{\nfloat s = 0; int k = 0;\n{body}\nout[0] = s; at[0] = k;\n}}\n")
        forms.append(form(load(path).scops[0]))
    for body, found in zip(SPELLINGS[family], forms, strict=True):
        assert found == forms[0], body
