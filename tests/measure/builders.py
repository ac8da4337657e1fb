"""Scops built by hand, so that these tests need no front end."""

from __future__ import annotations

from pathlib import Path

import islpy as isl

from polydl.base.errors import Span
from polydl.lower.emit import Generated
from polydl.measure import MeasureOptions
from polydl.model.expr import Binary, Expr, Load
from polydl.model.scop import Access, Array, Assignment, Guard, Region, Scop, Source, Statement, Storage
from polydl.model.types import element_type

SPAN = Span("input.c", 1, 1)
QUICK = MeasureOptions(
    threads=2,
    timeout=2.0,
    original_timeout=2.0,
    min_sample=50e-6,
    budget=5e-3,
    min_rounds=3,
    max_rounds=5,
    memory=256 << 20,
)


def extent(value: int) -> isl.PwAff:
    return isl.PwAff(f"{{ [({value})] }}")


def array(name: str, *shape: int, ctype: str = "float", storage: Storage = Storage.PARAMETER, **more: object) -> Array:
    dims = "".join(f"[{'restrict ' if k == 0 else ''}{n}]" for k, n in enumerate(shape))
    fields: dict[str, object] = {
        "declaration": f"{ctype} {name}{dims}",
        "extents": tuple(extent(n) for n in shape),
        "restrict": True,
        **more,
    }
    return Array(name=name, element=element_type(ctype), storage=storage, **fields)  # type: ignore[arg-type]


def access(domain: isl.Set, name: str, subscripts: str, *, write: bool = False) -> Access:
    iterators = ", ".join(domain.get_dim_name(isl.dim_type.set, k) for k in range(domain.dim(isl.dim_type.set)))
    relation = isl.Map(f"{{ {domain.get_tuple_name()}[{iterators}] -> {name}[{subscripts}] }}")
    return Access(name, write, relation.intersect_domain(domain))


def statement(
    domain: str, target: tuple[str, str], reads: tuple[tuple[str, str], ...], value: Expr, op: str = "="
) -> Statement:
    """`target op value` over an isl domain `{ S0[i] : … }`; `value` loads from `reads` by index."""
    points = isl.Set(domain)
    iterators = tuple(points.get_dim_name(isl.dim_type.set, k) for k in range(points.dim(isl.dim_type.set)))
    accesses = [access(points, name, subscripts) for name, subscripts in reads]
    target_read = None
    if op != "=":
        target_read = len(accesses)
        accesses.append(access(points, *target))
    accesses.append(access(points, *target, write=True))
    return Statement(
        points.get_tuple_name(),
        iterators,
        points,
        (0,) * (len(iterators) + 1),
        frozenset(),
        tuple(accesses),
        Assignment(len(accesses) - 1, op, value, target_read),
        SPAN,
    )


def scop(
    text: str,
    arrays: tuple[Array, ...],
    statements: tuple[Statement, ...],
    *,
    path: Path = Path("input.c"),
    function: str = "void kernel",
    declared_outside: tuple[str, ...] = (),
    guards: tuple[Guard, ...] = (),
    parameters: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
) -> Scop:
    """A scop of the region between `#pragma scop` and `#pragma endscop` in the function that starts with `function`."""
    start = text.index("#pragma scop\n") + len("#pragma scop\n")
    end = text.rindex("\n", 0, text.index("#pragma endscop")) + 1
    region = Region(start, end, text.index(function), declared_outside)
    return Scop(
        "kernel",
        SPAN,
        Source(path, text, flags),
        region,
        parameters,
        isl.Set("{ : }"),
        {a.name: a for a in arrays},
        statements,
        guards=guards,
        live_out=frozenset(a.name for a in arrays if a.storage is not Storage.REGION),
    )


MATMUL = """\
#include <math.h>
#define N 48
static float scale(float x) { return x; }
void kernel(float A[restrict N][N], float B[restrict N][N], float C[restrict N][N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                C[i][j] += scale(A[i][k]) * B[k][j];
#pragma endscop
}
"""
PRODUCT = Binary("*", Load(0), Load(1))


def matmul(n: int = 48, text: str = MATMUL, **more: object) -> Scop:
    """C += A·B, all n×n floats."""
    text = text.replace("#define N 48", f"#define N {n}")
    product = statement(
        f"{{ S0[i, j, k] : 0 <= i, j, k < {n} }}", ("C", "i, j"), (("A", "i, k"), ("B", "k, j")), PRODUCT, "+="
    )
    arrays = tuple(array(name, n, n) for name in "ABC")
    return scop(text, arrays, (product,), **more)  # type: ignore[arg-type]


IKJ = (
    "for (int i = 0; i < N; i++) for (int k = 0; k < N; k++) for (int j = 0; j < N; j++) C[i][j] += A[i][k] * B[k][j];"
)


def candidate(region: str = "", prologue: str = "") -> Generated:
    """C that does the right thing and then what `region` says."""
    return Generated((prologue,), f"{IKJ}\n{region}")
