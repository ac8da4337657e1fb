"""Programs as people write them: accepted, the same code however they are spelled, right.

Those that are not in MEASURED are run by tests/programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import polydl
from polydl.measure import Status
from polydl.model.scop import Scop
from polydl.rewrite.canonical import canonical
from polydl.target.isa import kernel_contraction
from tests.everyday.programs import MEASURED, PROGRAMS
from tests.programs.corpus import Entry

pytestmark = pytest.mark.few_sizes


def scops(entry: Entry) -> tuple[Scop, ...]:
    values = entry.sizes[0]
    return polydl.load(entry.path, defines=entry.defines(values), sizes=entry.parameters(values)).scops


def test_every_file_is_in_the_catalogue() -> None:
    assert {path.stem for path in Path(__file__).parent.glob("*.c")} == set(PROGRAMS)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_it_is_taken_for_what_it_is(name: str) -> None:
    (scop,) = (one for one in scops(PROGRAMS[name]) if one.function == name)
    found = canonical(scop)
    assert not found.refused
    kernels = sum(kernel_contraction(found.scop, s) is not None for s in found.scop.statements)
    assert kernels == PROGRAMS[name].contraction


# A scheduler that is stopped says so loudly: what is found without it is to be right all the same.
@pytest.mark.filterwarnings("ignore:.*was stopped after:UserWarning")
@pytest.mark.parametrize("name", MEASURED)
def test_it_computes_the_same(name: str, tmp_path: Path) -> None:
    entry = PROGRAMS[name]
    values = entry.sizes[0]
    done = polydl.optimize(
        entry.path, tmp_path / "out.c", defines=entry.defines(values), sizes=entry.parameters(values),
        space="small", top_k=3, budget=None,
    )  # fmt: skip
    assert done.output is not None
    for scop in done.scops:
        assert scop.report is not None
        assert {m.status for m in scop.report.measurements} <= {Status.VERIFIED}
        assert not scop.illegal
