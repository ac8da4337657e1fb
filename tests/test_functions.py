"""The table of C's functions stands alone: no other module has several of their names in a table, or compares them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from polydl.base.flags import options_of
from polydl.kernels.vector_text import SHORT_ULPS
from polydl.measure.tolerance import CALL_ROUNDINGS
from polydl.model.functions import FUNCTIONS, function_of, result_of
from polydl.model.types import F32, F64, I32, LONG_DOUBLE
from polydl.options import Options

PACKAGE = Path(__file__).parent.parent / "polydl"
TABLE = PACKAGE / "model" / "functions.py"

NAMES = {name for row in FUNCTIONS for name in row.spellings}
ALLOWED = {"abs", "labs", "llabs", "fma"}
"""Of loop variables, whose values are affine, the first three mean what is said where that is worked out; the last is
also an operation of the generated code."""


def words(nodes: list[ast.expr | None]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and n.value in NAMES - ALLOWED]


def faults(text: str) -> list[str]:
    """Where a module knows functions by name: several in a collection, or one in a comparison."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left, _, others):
                wrong = words([left, *others])
            case ast.MatchValue(value):
                wrong = words([value])
            case ast.Dict(keys, values):
                wrong = [] if len({*words([*keys, *values])}) < 2 else words([*keys, *values])
            case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
                wrong = [] if len({*words([*elts])}) < 2 else words([*elts])
            case _:
                wrong = []
        found += [f"line {node.lineno}: {word!r}" for word in wrong]  # type: ignore[attr-defined]
    return found


ORACLE = set((PACKAGE / "oracle").glob("*.py"))
"""It shares no table with what it is held against."""


@pytest.mark.parametrize(
    "path", sorted(set(PACKAGE.rglob("*.py")) - {TABLE} - ORACLE), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_no_other_module_knows_functions_by_name(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        'if function == "expf": pass',
        'SLOW = {"exp": 2, "tanh": 3}',
        'CHEAP = ("floor", "ceil")',
        'match call:\n    case Call("fmaxf" | "fmax"): pass',
    ],
)
def test_faults_are_seen(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize("text", ['row = function_of("exp")', 'raise E("exp is slow")', 'ONE = ("exp",)'])
def test_the_rest_passes(text: str) -> None:
    assert faults(text) == []


def test_every_name_belongs_to_one_row() -> None:
    every = [name for row in FUNCTIONS for name in row.spellings]
    assert len(every) == len(set(every))


def test_names_and_what_they_return() -> None:
    assert [result_of(n) for n in ("erfc", "erfcf", "erfcl", "__builtin_erfcf")] == [F64, F32, LONG_DOUBLE, F32]
    assert result_of("isnan") is I32
    assert result_of("lgamma") is result_of("printf") is None
    erfc = function_of("erfc")
    assert erfc is not None and function_of("erfcf") is erfc
    assert function_of("erfcl") is function_of("__builtin_erfc") is function_of("cexp") is None


def test_results_are_compared_with_room_for_the_errors_of_vectors() -> None:
    """The tolerance of a call covers libm's error and that of the vector function in its place."""
    vectors = [row.vector for row in FUNCTIONS if row.vector is not None]
    assert all(max(v.ulps, v.ulps_double or 0) + 1 <= CALL_ROUNDINGS <= SHORT_ULPS for v in vectors)


def test_the_option_names_what_it_approximates() -> None:
    said = next(option.flag.help for option in options_of(Options) if option.name == "fast_math")
    assert all(row.name in said for row in FUNCTIONS if row.vector is not None and row.vector.short)
