"""A file is preprocessed, parsed and walked once; sizes are put into what was read."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polydl
from polydl.base.errors import InputError, InputErrors
from polydl.frontend.lower.extract import Extracted, extract
from polydl.frontend.lower.regions import Found
from polydl.frontend.text.parse import Unit
from polydl.model import isl
from polydl.model.scop import Array, Scop
from polydl.options import Options
from polydl.search.loading import parsed, with_sizes
from tests.programs.corpus import Entry, catalogue

pytestmark = pytest.mark.few_sizes

program_module = importlib.import_module("polydl.frontend.program")
load_module = importlib.import_module("polydl.frontend.load")

EVERYDAY = Path(__file__).parent.parent / "everyday"
PROGRAMS = {
    name: entry
    for folder in (catalogue(), catalogue(EVERYDAY))
    for name, entry in folder.items()
    if entry.parameters(entry.sizes[0])
}
"""Those with sizes that are parameters."""
Read = Callable[[Entry, Mapping[str, int]], tuple[Scop, ...]]
SHAPED_BY_NUMBERS = (
    "box_clamped_flat", "ising_energy", "max_pool_index", "pack_upper", "packed_matvec", "torus_life",
)  # fmt: skip
"""Flat arrays of which rows are recovered as their sizes say where these are parameters. Where they are numbers other
divisions of the numbers are found, or none; in packed triangles, columns that have a multiple of the row in them."""


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two values of the model differ; isl's objects by meaning and spaces."""
    if isinstance(one, isl.Set | isl.Map | isl.PwAff | isl.MultiPwAff):
        same_space = isl.parameters(one.get_space()) == isl.parameters(other.get_space())
        equal = one.is_equal(other) and same_space
        # Functions are printed as they are written.
        if not equal or (isinstance(one, isl.PwAff) and str(one) != str(other)):
            yield f"{where}: {one} | {other}"
    elif is_dataclass(one) and type(one) is type(other):
        for field in fields(one):
            if field.compare:
                yield from differences(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for k, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{where}[{k}]")
    elif isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        for key in one:
            yield from differences(one[key], other[key], f"{where}[{key}]")
    elif one != other:
        yield f"{where}: {one} | {other}"


def read_with(entry: Entry, values: Mapping[str, int]) -> tuple[Scop, ...]:
    """As the walk reads it when it knows the sizes."""

    def refuse(scop: Scop, sizes: Mapping[str, int]) -> bool:
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_module, "takes_sizes", refuse)
        return filled(entry, values)


def filled(entry: Entry, values: Mapping[str, int]) -> tuple[Scop, ...]:
    file = parsed(entry.path, Options(defines=entry.defines(values)))
    return file.program(entry.parameters(values)).scops


def outcome(read: Read, entry: Entry, values: Mapping[str, int]) -> tuple[tuple[Scop, ...], str]:
    """The scops, or what is wrong."""
    try:
        return read(entry, values), ""
    except InputErrors as error:
        return (), str(error)


def small(entry: Entry) -> dict[str, int]:
    """Other sizes: small ones that differ from each other."""
    return {name: 5 + k if name in entry.runtime else v for k, (name, v) in enumerate(entry.sizes[0].items())}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_sizes_put_in_are_sizes_read(name: str) -> None:
    entry = PROGRAMS[name]
    for values in (*entry.sizes, entry.bench, small(entry)):
        wanted, wrong = outcome(read_with, entry, values)
        found, said = outcome(filled, entry, values)
        assert said == wrong
        for one, other in zip(found, wanted, strict=True):
            assert one.symbolic is not None
            if name in SHAPED_BY_NUMBERS:
                assert [*addresses(one)] == [*addresses(other)]
                pairs = zip(one.statements, other.statements, strict=True)
                assert [line for a, b in pairs for line in differences(a.body, b.body)] == []
            else:
                assert [*differences(one, other)] == []


def addresses(scop: Scop) -> Iterator[tuple[str, str, bool, tuple[int, ...]]]:
    """The elements that the first instances of each statement touch, by their places in memory."""
    for statement in scop.statements:
        first = statement.domain.lexmin()
        for access in statement.accesses:
            touched = access.relation.intersect_domain(first).range()
            yield statement.name, access.array, access.write, places(scop.arrays[access.array], touched)


def places(array: Array, touched: isl.Set) -> tuple[int, ...]:
    if array.is_scalar or touched.is_empty():
        return ()
    if array.layout.packed is not None:
        ends = [isl.bounds(touched, d) for d in range(isl.arity(touched))]
        assert all(low == high for low, high in ends), "one element"
        offset = array.layout.packed.offset([low for low, _ in ends])
        assert offset is not None
        return (offset, offset)
    address = array.layout.address(touched)
    return isl.to_int(touched.min_val(address)), isl.to_int(touched.max_val(address))


def only_with_sizes(folder: Path) -> Path:
    """A program whose loops are a region where its size is a number alone: the quotient may be up to four."""
    path = folder / "stride.c"
    path.write_text(
        "void stride(int n, const float *restrict x, float *restrict y)\n"
        "{\n    for (int i = 0; i < n; i++)\n        y[i] = 0.5f * x[(5 * i) % n];\n}\n"
    )
    return path


def test_what_is_a_region_only_with_sizes_says_so(tmp_path: Path) -> None:
    (scop,) = parsed(only_with_sizes(tmp_path), Options()).program({"n": 64}).scops
    assert scop.symbolic is None and "not affine" in scop.only_with_sizes
    ranking = polydl.rank(scop, "small", "xeon-8480plus", threads=1)
    others = polydl.pipeline.at_other_sizes(ranking, Options(sizes={"n": 64})).other_sizes
    assert isinstance(others, str) and scop.only_with_sizes in others


def test_a_number_that_only_values_depend_on(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text("void f(int n, int k, int *x) { for (int i = 0; i < n; i++) x[i] = x[i] * k; }")
    options = Options(sizes={"n": 8, "k": 3})
    (scop,) = polydl.load(path, options).scops
    assert scop.sizes == {"k": 3, "n": 8} and set(scop.arrays) == {"x"}
    assert scop.symbolic is not None and set(scop.symbolic.arrays) == {"x", "k"}
    other = with_sizes(scop, options, {"k": 4})
    assert other.sizes == {"k": 4, "n": 8}


def test_variables_made_of_sizes_follow(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text("void f(int n, float *x) { int half = n / 2; for (int i = 0; i < half; i++) x[i] = half; }")
    options = Options(sizes={"n": 9})
    (scop,) = polydl.load(path, options).scops
    assert scop.symbolic is not None and scop.symbolic.derived <= {"half"}
    assert with_sizes(scop, options, {"n": 12}).sizes["n"] == 12
    assert with_sizes(scop, options, {"n": 12}).statements[0].domain.count_val().to_python() == 6


@pytest.mark.parametrize("sizes", [{"n": 5, "m": 9}, {"n": 8, "m": 0}, {"n": 8, "m": -1}, {"n": 2**40, "m": 8}])
def test_what_does_not_work_is_told_as_by_the_walk(tmp_path: Path, sizes: dict[str, int]) -> None:
    entry = tmp_path / "f.c"
    entry.write_text(
        "void f(int n, int m, float x[8], float y[n])\n{\n  for (int i = 0; i < m; i++)\n    x[i] = y[i];\n}"
    )
    messages = []
    for put_in in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not put_in:
                patch.setattr(program_module, "takes_sizes", lambda scop, sizes: False)
            try:
                messages.append([str(s) for s in polydl.load(entry, sizes=sizes).scops[0].statements])
            except InputError as error:
                messages.append([str(error)])
    assert messages[0] == messages[1]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often files are preprocessed and parsed, and regions are walked."""
    found: Counter[str] = Counter()

    def counting(module: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counted(*given: Any, **named: Any) -> Any:
            found[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(module, name, counted)

    for name in ("preprocess", "parse"):
        counting(load_module, name)

    def walked(unit: Unit, region: Found, *more: Any) -> Extracted:
        found["walk"] += 1
        return extract(unit, region, *more)

    monkeypatch.setattr(program_module, "extract", walked)
    return found


ONCE = {"preprocess": 1, "parse": 1, "walk": 1}
KERNEL = """\
void product(int n, int m, const float A[restrict n][m], const float x[restrict m], float y[restrict n])
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            y[i] += A[i][k] * x[k];
}
"""


@pytest.mark.parametrize(
    ("sizes", "more", "run"),
    [
        ({"n": 40, "m": 24}, {}, True),
        ({"n": 40, "m": 24}, {}, False),
        ({"n": 40}, {}, False),
        ({}, {}, False),
        ({"n": range(1, 90), "m": 24}, {}, False),
        ({"n": range(1, 90), "m": range(4, 60)}, {"curve": 3}, True),
    ],
    ids=["sizes, run", "sizes", "one size", "no sizes", "ranges", "curve, run"],
)
def test_optimize_reads_once(
    tmp_path: Path, counts: Counter[str], sizes: dict[str, int | range], more: dict[str, Any], run: bool
) -> None:
    path = tmp_path / "product.c"
    path.write_text(KERNEL)
    done = polydl.optimize(path, tmp_path / "out.c", run=run, sizes=sizes, space="small", top_k=1, threads=1, **more)
    assert done.output is not None
    assert counts == ONCE


def test_leading_dimensions_are_read_once(tmp_path: Path, counts: Counter[str]) -> None:
    path = tmp_path / "flat.c"
    path.write_text(
        "void f(int n, int ld, float *A)\n{\n  for (int i = 0; i < n; i++)\n    for (int k = 0; k < n; k++)\n"
        "      A[i * ld + k] *= 2;\n}\n"
    )
    done = polydl.optimize(path, tmp_path / "out.c", run=False, space="small", threads=1)
    assert done.output is not None and set(done.any_value) == {"n", "ld"}
    assert counts == ONCE


def test_fuse_reads_once(tmp_path: Path, counts: Counter[str]) -> None:
    path = tmp_path / "product.c"
    path.write_text(KERNEL)
    polydl.fuse(path, tmp_path / "out.c")
    assert counts == ONCE


def test_compile_reads_once(counts: Counter[str]) -> None:
    kernel = polydl.compile(KERNEL, {"n": 6, "m": 4}, tune=False, threads=1, fresh=True)
    assert counts == ONCE
    np.testing.assert_array_equal(kernel(np.ones((6, 4), np.float32), np.ones(4, np.float32)), np.full(6, 4))


def test_macros_are_text_that_is_read_with_them(counts: Counter[str]) -> None:
    text = KERNEL.replace("int n, int m, ", "")
    polydl.compile(text, {"n": 6, "m": 4}, tune=False, threads=1, fresh=True)
    assert counts == {"preprocess": 2, "parse": 2, "walk": 1}


def test_what_lacks_sizes_is_not_walked_again_in_parts(tmp_path: Path, counts: Counter[str]) -> None:
    path = tmp_path / "many.c"
    nest = "for (int i = 0; i < n; i++) for (int k = 0; k < 9; k++) x[i] += k;"
    path.write_text("void f(int n, float *x)\n{\n" + "\n".join([nest] * 30) + "\n}\n")
    with pytest.raises(InputErrors) as caught:
        polydl.load(path)
    assert {error.topic for error in caught.value.errors} == {"sizes"}
    assert counts == ONCE


def test_what_needs_its_sizes_is_walked_with_them(tmp_path: Path, counts: Counter[str]) -> None:
    """Without them first, and anew for other sizes."""
    polydl.load(only_with_sizes(tmp_path), sizes={"n": 64})
    assert counts == {"preprocess": 1, "parse": 1, "walk": 2}
