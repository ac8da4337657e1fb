"""Programs that are built in Python, without a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polydl
from polydl.base.errors import InputError
from polydl.measure import Status
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from tests.frontend.test_read_once import differences

pytestmark = pytest.mark.few_sizes


def linear(element: str = "float") -> Scop:
    """A matrix product with a bias and ReLU."""
    b = polydl.build("linear")
    M, N, K = b.sizes("M N K")
    X, W, bias, Y = b.arrays(element, X=(M, K), W=(K, N), bias=(N,), Y=(M, N))
    with b.loops(i=M, j=N) as (i, j):
        Y[i, j] = bias[j]
        with b.loop("k", K) as k:
            Y[i, j] += X[i, k] * W[k, j]
        Y[i, j] = b.call("fmax", Y[i, j], 0.0)
    return b.scop()


LINEAR = """\
#include <math.h>
void linear(int M, int N, int K, const float X[restrict M][K], const float W[restrict K][N],
            const float bias[restrict N], float Y[restrict M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            Y[i][j] = bias[j];
            for (int k = 0; k < K; k++)
                Y[i][j] += X[i][k] * W[k][j];
            Y[i][j] = fmaxf(Y[i][j], 0.0f);
        }
}
"""


def two_products() -> Scop:
    """T = A B in an array of the function's own, then D = T C."""
    b = polydl.build("two_products")
    A, B, C, D = b.arrays("float", A=(48, 48), B=(48, 48), C=(48, 48), D=(48, 48))
    T = b.temporary("T", "float", 48, 48)
    for target, left, right in ((T, A, B), (D, T, C)):
        with b.loops(i=48, j=48) as (i, j):
            target[i, j] = 0
            with b.loop("k", 48) as k:
                target[i, j] += left[i, k] * right[k, j]
    return b.scop()


def triangle() -> Scop:
    """Bounds that depend on loops, conditions, integers, conversions, variables, and an assumption."""
    b = polydl.build("triangle")
    n, m = b.sizes("n m")
    b.assume(n <= m)
    alpha = b.scalar("alpha", "float")
    x = b.array("x", "double", n, m)
    count = b.array("count", "int", n)
    total = b.temporary("total", "double")
    with b.loop("i", n) as i:
        total[()] = 0
        count[i] = 2 * i - 1
        with b.loop("j", (i + 1, n)) as j:
            total[()] = total[()] + x[i, j] * alpha
            with b.when(j >= 2 * i):
                count[i] += b.select(x[i, j] > 0.5, 3, -1)
        x[i, i] = -total[()] / (n + 1) + b.call("sqrt", b.cast("double", count[i]) * 0.25 + 7)
    return b.scop()


@pytest.mark.parametrize("made", [linear, two_products, triangle])
def test_it_is_what_the_front_end_makes_of_its_source(made: Callable[[], Scop]) -> None:
    scop = made()
    (again,) = polydl.load(scop.source.text, require_sizes=False).scops
    elsewhere = re.compile(r"[^:]*\.(span|path)\b")  # the file has another name
    assert [one for one in differences(scop, again) if not elsewhere.match(one)] == []
    assert (
        scop.source.text[scop.region.start : scop.region.end]
        == again.source.text[again.region.start : again.region.end]
    )


def test_it_is_searched_like_the_same_program_in_c() -> None:
    sizes = {"M": 96, "N": 80, "K": 64}
    built, written = (
        polydl.rank(one, "small", "epyc-zen3", threads=2, sizes=sizes) for one in (linear(), LINEAR)
    )  # fmt: skip
    assert [v.id for v in built.variants] == [v.id for v in written.variants] and len(built.variants) > 10
    assert [v.score for v in built.variants] == [v.score for v in written.variants]
    forms = [canonical(polydl.load(LINEAR, sizes=sizes).scops[0]).scop, built.program.scop]
    assert [str(s.domain) for s in forms[0].statements] == [str(s.domain) for s in forms[1].statements]
    assert [s.body for s in forms[0].statements] == [s.body for s in forms[1].statements]


def test_optimize_writes_a_file(tmp_path: Path) -> None:
    sizes = {"M": 24, "N": 20, "K": 16}
    done = polydl.optimize(linear(), tmp_path / "out.c", sizes=sizes, space="small", top_k=2, threads=1, budget=None)
    assert done.output == tmp_path / "out.c"
    assert (tmp_path / "out.c").read_text() == done.text
    (one,) = done.scops
    assert one.report is not None
    assert {m.status for m in one.report.measurements} == {Status.VERIFIED}
    assert polydl.optimize(linear(), sizes=sizes, space="small", run=False, threads=1).output is None


def test_optimize_without_sizes_is_for_every_value(tmp_path: Path) -> None:
    done = polydl.optimize(linear(), tmp_path / "out.c", run=False, space="small", threads=1)
    assert set(done.any_value) == {"M", "N", "K"}
    assert done.scops[0].at({"M": 100, "N": 90, "K": 50}).sizes == {"M": 100, "N": 90, "K": 50}


@pytest.mark.parametrize("element", ["float", "double"])
def test_compile_makes_a_function_of_arrays(element: str) -> None:
    kernel = polydl.compile(linear(element), {"M": 24, "N": 20, "K": 16}, tune=False, threads=1)
    rng = np.random.default_rng(1)
    for shape in ((24, 20, 16), (7, 9, 5)):
        M, N, K = shape
        dtype = "f4" if element == "float" else "f8"
        X, W, bias = (rng.integers(-3, 4, s).astype(dtype) for s in ((M, K), (K, N), (N,)))
        found = kernel(X, W, bias, M=M, N=N, K=K)
        np.testing.assert_array_equal(found, np.maximum(X @ W + bias, 0))


def test_compile_of_one_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "scaled.c"
    path.write_text("void scaled(int n, float x[n])\n{\n  for (int i = 0; i < n; i++)\n    x[i] *= FACTOR;\n}\n")
    for factor in (2, 3):  # the same text
        (scop,) = polydl.load(path, defines={"FACTOR": factor}, require_sizes=False).scops
        x = np.ones(5, np.float32)
        polydl.compile(scop, {"n": 5}, tune=False, threads=1)(x)
        np.testing.assert_array_equal(x, np.full(5, factor))
    with pytest.raises(InputError, match="'FACTOR' is no size of scaled"):
        polydl.compile(scop, {"FACTOR": 5}, tune=False)


def test_numbers_of_every_kind() -> None:
    kernel = polydl.compile(triangle(), {"n": 9, "m": 11}, tune=False, threads=1)
    x = np.random.default_rng(3).integers(-4, 5, (9, 11)).astype(float)
    wanted, counts = x.copy(), np.zeros(9, np.int32)
    for i in range(9):
        counts[i] = 2 * i - 1 + sum(3 if wanted[i, j] > 0.5 else -1 for j in range(max(i + 1, 2 * i), 9))
        wanted[i, i] = -sum(wanted[i, i + 1 : 9] * 0.5) / 10 + np.sqrt(counts[i] * 0.25 + 7)
    count = np.zeros(9, np.int32)
    kernel(np.float32(0.5), x, count)
    np.testing.assert_array_equal(count, counts)
    np.testing.assert_allclose(x, wanted, rtol=1e-15)


def test_sizes_that_do_not_work_are_told() -> None:
    with pytest.raises(InputError, match="triangle does not work with n = 12, m = 11"):
        polydl.rank(triangle(), "small", sizes={"n": 12, "m": 11})
    b = polydl.build("fixed")
    n = b.size("n")
    x = b.array("x", "float", 8)
    with b.loop("i", n) as i:
        x[i] = 0
    with pytest.raises(InputError, match="with n = 9, subscript 1 of 'x' leaves its bounds"):
        polydl.rank(b.scop(), "small", sizes={"n": 9})


Mistake = Callable[[polydl.Builder], object]


def _of_another(b: polydl.Builder) -> None:
    b.array("Y", "float", 4)[0] = polydl.build("other").array("X", "float", 4)[0]


def _behind_its_loop(b: polydl.Builder) -> None:
    Y = b.array("Y", "float", 4)
    with b.loop("i", 4) as i:
        Y[i] = 0
    Y[i] = 1


def _past_the_end(b: polydl.Builder) -> None:
    n = b.size("n")
    Y = b.array("Y", "float", n)
    with b.loop("i", n) as i:
        Y[i + n] = 1
    b.scop()


def _before_the_start(b: polydl.Builder) -> None:
    Y = b.array("Y", "float", 4)
    with b.loop("i", 4) as i:
        Y[i - 1] = 1
    b.scop()


def _twice(b: polydl.Builder) -> None:
    with b.loops(i=4, j=4, k=4), b.loop("j", 3):
        pass


def _data_as_subscript(b: polydl.Builder) -> None:
    Y, at = b.array("Y", "float", 4), b.array("at", "int", 4)
    Y[at[0]] = 1  # type: ignore[index]


def _elsewhere_updated(b: polydl.Builder) -> None:
    Y, Z = b.arrays("float", Y=(4,), Z=(4,))
    element: Any = Y[0]
    element += 1
    Z[1] = element


def _condition_on_data(b: polydl.Builder) -> None:
    with b.when(b.array("Y", "float", 4)[0] > 1):
        pass


def _contradiction(b: polydl.Builder) -> None:
    n = b.size("n")
    b.assume(n < 0)
    b.array("Y", "float", n)[0] = 1
    b.scop()


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda b: b.array("Y", "float", 4)[0, 1], "'Y' has 1 dimensions and is used with 2 subscripts"),
        (lambda b: b.array("Y", "floot", 4), "'floot' is no element type"),
        (lambda b: b.array("Y", "float", polydl.build("other").size("n")), "'n' is no size of 'f'"),
        (lambda b: [b.size("n"), b.size("n")], "'n' is there already"),
        (lambda b: b.size("for"), "'for' is no name in C"),
        (lambda b: b.size("polydl_n"), "begins with 'polydl_'"),
        (lambda b: b.scop(), "'f' computes nothing"),
        (lambda b: b.array("i", "int", 4).__setitem__(0, b.array("j", "int", 4)[0] / 2), "a division of integers"),
        (lambda b: b.array("Y", "float", 4).__setitem__(0, "1"), "str is no value"),
        (lambda b: [b.array("y", "int", 4).__setitem__(0, 0.5), b.scop()], "0.5 is used with integers"),
        (lambda b: b.call("exp"), "'exp' takes 1 argument, not 0"),
        (lambda b: b.call("expf", 1.0), "there is no function 'expf' to call"),
        (lambda b: b.call("fmax", 1.0), "'fmax' takes 2 arguments, not 1"),
        (lambda b: b.call("system", 1.0), "there is no function 'system' to call"),
        (lambda b: bool(b.size("n") > 3), "known when the program runs"),
        (_of_another, "'X' is an array of another program"),
        (_behind_its_loop, "a subscript of 'Y' uses 'i', which is no loop variable or size here"),
        (_past_the_end, "subscript 1 of 'Y' leaves its bounds"),
        (_before_the_start, "subscript 1 of 'Y' leaves its bounds"),
        (_twice, "'j' is there already"),
        (_data_as_subscript, "a subscript is made of loop variables, sizes and whole numbers"),
        (_elsewhere_updated, "'Y' is updated, and stored in 'Z'"),
        (_condition_on_data, "data decide whether"),
        (_contradiction, "what is assumed contradicts"),
    ],
)
def test_mistakes_are_told(mistake: Mistake, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mistake(polydl.build("f"))


Values = dict[str, Any]
Make = Callable[[polydl.Builder, Values], Any]
Run = Callable[[Values], Any]


@dataclass(frozen=True)
class Both:
    """A value as it is built, and as NumPy computes it."""

    make: Make
    run: Run


@dataclass(frozen=True)
class Nest:
    """Loops around statements, each `array[subscripts] op value`."""

    loops: tuple[str, ...]
    statements: tuple[tuple[str, tuple[tuple[str, int], ...], str, Both], ...]


RANKS = {"x": 1, "y": 2, "z": 2}
PAD = 2


def element(array: str, subscripts: tuple[tuple[str, int], ...]) -> Both:
    def at(values: Values) -> tuple[Any, ...]:
        return tuple(values[name] + offset for name, offset in subscripts)

    return Both(lambda b, values: values[array][at(values)], lambda values: values[array][at(values)])


def binary(op: str, one: Both, other: Both) -> Both:
    compute: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q,
    }  # fmt: skip
    return Both(
        lambda b, values: compute[op](one.make(b, values), other.make(b, values)),
        lambda values: compute[op](one.run(values), other.run(values)),
    )


def larger(one: Both, other: Both) -> Both:
    def make(b: polydl.Builder, values: Values) -> Any:
        return b.select(one.make(b, values) > other.make(b, values), one.make(b, values), other.make(b, values))

    return Both(make, lambda values: max(one.run(values), other.run(values)))


def constant(number: int) -> Both:
    return Both(lambda b, values: number, lambda values: number)


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    loops = tuple(draw(st.permutations("ijk"))[: draw(st.integers(1, 3))])
    subscript = st.tuples(st.sampled_from(loops), st.integers(0, PAD))

    def subscripts(array: str) -> st.SearchStrategy[tuple[tuple[str, int], ...]]:
        return st.tuples(*[subscript] * RANKS[array])

    reads = st.sampled_from(sorted(RANKS)).flatmap(lambda a: subscripts(a).map(partial(element, a)))
    leaves = st.one_of(reads, reads, st.integers(-2, 2).map(constant))
    values = st.one_of(
        reads, st.builds(binary, st.sampled_from("+-*"), reads, leaves), st.builds(larger, reads, leaves)
    )
    several = []
    for _ in range(draw(st.integers(1, 2))):
        array = draw(st.sampled_from(sorted(RANKS)))
        several.append((array, draw(subscripts(array)), draw(st.sampled_from(["=", "+="])), draw(values)))
    return Nest(loops, tuple(several))


def built(program: list[Nest], kind: str) -> Scop:
    b = polydl.build("random_program")
    n = b.size("n")
    values: Values = {a: b.array(a, kind, *[n + PAD] * rank) for a, rank in RANKS.items()}
    for nest in program:
        with b.loops(**dict.fromkeys(nest.loops, n)) as iterators:
            here = values | dict(zip(nest.loops, iterators, strict=True))
            for array, subscripts, op, value in nest.statements:
                at, made = tuple(here[name] + offset for name, offset in subscripts), value.make(b, here)
                if op == "=":
                    values[array][at] = made
                else:
                    values[array][at] += made
    return b.scop()


def interpreted(program: list[Nest], values: Values, n: int) -> None:
    for nest in program:
        for point in product(range(n), repeat=len(nest.loops)):
            here = values | dict(zip(nest.loops, point, strict=True))
            for array, subscripts, op, value in nest.statements:
                at, result = tuple(here[name] + offset for name, offset in subscripts), value.run(here)
                values[array][at] = result if op == "=" else values[array][at] + result


def inputs(kind: str, n: int) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(7)
    for array, rank in RANKS.items():
        yield array, rng.integers(-1, 2, (n + PAD,) * rank).astype(kind)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(nests(), min_size=1, max_size=2), st.sampled_from(["float", "double", "int"]), st.booleans())
def test_random_programs_compute_what_numpy_does(program: list[Nest], kind: str, optimized: bool) -> None:
    dtype = {"float": "float32", "double": "float64", "int": "int32"}[kind]
    n = 4
    wanted = {name: array.astype(object) for name, array in inputs(dtype, n)}
    interpreted(program, wanted, n)
    if any(abs(v) >= 2**24 for array in wanted.values() for v in array.flat):
        return  # a float would round
    kernel = polydl.compile(built(program, kind), {"n": n}, optimize=optimized, tune=False, threads=1, space="small")
    found = dict(inputs(dtype, n))
    kernel(**found)
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name].astype(dtype))
