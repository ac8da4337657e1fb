"""Programs of the corpus and of tests/everyday compute what they computed before, when optimized, at several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.measure.unit import size_guards
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.pipeline import at_other_sizes, load, rank, with_fused
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.search.loading import with_sizes
from polydl.search.timing_order import TimingOrder
from tests.compiling import run_compiler, run_program
from tests.efforts import LEAST
from tests.everyday.programs import COMPARED
from tests.oracle.native import QUICK_NATIVE
from tests.programs.corpus import Comparison, Entry, catalogue, comparison_program

FLAGS = (*QUICK_NATIVE, "-ffp-contract=off", "-w")
"""Without contraction of a * b + c, what keeps the order of operations keeps every bit."""
QUICK = Options(space="small", machine="epyc-zen5", threads=2, effort=LEAST)


def outputs(entry: Entry, values: Mapping[str, int], options: Options, most: int) -> list[str]:
    """The original text, the loops written again in their order, and texts with the best variants of every scop."""
    chosen = options.changed(defines=entry.defines(values), sizes=entry.parameters(values))
    program = load(entry.path, chosen)
    offered = []
    for scop in program.scops:
        ranking = rank(scop, options=chosen)
        codes = [generate(ranking.scop, program_tree([ordered(nest, ()) for nest in ranking.nests]))]
        codes += [variant.generated for variant in TimingOrder(ranking.variants, most).next({}, most)]
        offered.append((ranking.scop, codes))
    texts = [entry.text]
    for number in range(max(len(codes) for _, codes in offered)):
        pieces = [(scop, codes[min(number, len(codes) - 1)]) for scop, codes in offered]
        texts.append(splice(program.source, pieces, ""))
    return texts


def check(entry: Entry, comparisons: list[Comparison], folder: Path, flags: tuple[str, ...] = FLAGS) -> None:
    """Compile everything as one file and run it."""
    path = folder / f"{entry.name}.c"
    path.write_text(comparison_program(entry, comparisons))
    run_compiler(["cc", *flags, str(path), "-o", str(folder / "compare"), "-lm"])
    threads = {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "passive", "PATH": "/usr/bin:/bin"}
    done = run_program([str(folder / "compare")], env=threads, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr


@pytest.mark.parametrize("name", catalogue())
def test_optimized_equals_original(name: str, tmp_path: Path) -> None:
    """The first sizes, a few variants of the small space; texts tuned to sizes at run time are run at others too."""
    entry = catalogue()[name]
    values = entry.sizes[0]
    others = entry.sizes[1:] if entry.runtime else ()
    check(entry, [Comparison(values, outputs(entry, values, QUICK, 2), others)], tmp_path)


def everyday_outputs(entry: Entry, values: Mapping[str, int]) -> tuple[list[str], Sequence[Mapping[str, int]]]:
    """The original text, texts with the best two variants of every scop, of which the first has beside it what
    `optimize` writes for other sizes; and such sizes."""
    threads = 2 if entry.runtime else 1 + len(entry.name) % 2
    chosen = QUICK.changed(defines=entry.defines(values), sizes=entry.parameters(values), threads=threads)
    program = load(entry.path, chosen)
    offered, nearby = [], []
    for scop in program.scops:
        ranking = with_fused(rank(scop, options=chosen), chosen)
        order = TimingOrder(ranking.variants, 2)
        variants, illegal = order.next({}, 2), order.illegal
        assert not illegal
        codes = [variant.generated for variant in variants]
        if entry.runtime:
            best = ranking.variants[0]  # stands in the last text, too, and runs there at the tuned sizes
            codes = [variant.generated for variant in variants if variant is not best]
            codes.append(at_other_sizes(ranking, chosen).code)
            nearby += [{**values, **sizes} for sizes in islice(neighbouring_sizes(scop, chosen), 6)]
        offered.append((ranking.scop, codes))
    texts = [entry.text]
    for number in range(max(len(codes) for _, codes in offered)):
        pieces = [(scop, codes[min(number, len(codes) - 1)]) for scop, codes in offered]
        texts.append(splice(program.source, pieces, ""))
    return texts, nearby


def neighbouring_sizes(scop: Scop, chosen: Options) -> Iterator[dict[str, int]]:
    """Sizes beside the scop's own, one parameter one more and one less at a time, where the program works with them."""
    tuned = {guard.name: guard.value for guard in size_guards(scop)}
    for name, value in tuned.items():
        for other in (value + 1, value - 1):
            try:
                there = with_sizes(scop, chosen, {name: other})
            except InputError:
                continue  # such as an array that is too short for one element more
            sizes = {guard.name: guard.value for guard in size_guards(there)}
            if other > 0 and sizes.keys() == tuned.keys():
                yield sizes


# A scheduler that is stopped says so loudly: what is found without it is to be right all the same.
@pytest.mark.filterwarnings("ignore:.*was stopped after:UserWarning")
@pytest.mark.parametrize("name", COMPARED)
def test_everyday_programs_compute_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose sizes are macros on one thread or on two, as the length of their names has it. Two seldom pay at
    these sizes, where `optimize` searches for one as well (tests/search/test_one_thread.py): for twice the time there
    would hardly be a text with threads among the best."""
    monkeypatch.setattr(pipeline, "_short", lambda ranking: False)
    entry = COMPARED[name]
    texts, nearby = everyday_outputs(entry, entry.sizes[0])
    check(entry, [Comparison(entry.sizes[0], texts, nearby)], tmp_path)
