"""Parallel loops of one team of threads: legal ones are executed and proved, others refused with the way out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import nests
from polydl.lower.emit import Generated, generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.prove import Proof, prove
from polydl.rank.traffic import resources_of
from polydl.rank.tree_estimate import footprints_of, tree_estimate
from polydl.rewrite.canonical import Canonical, Form, canonical
from polydl.schedule.as_tree import as_tree
from polydl.schedule.check import check
from polydl.schedule.loops import NestLoops, apply
from polydl.schedule.loopstring import parse, text
from polydl.schedule.notation import Written, split_line
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.quick_legality import is_legal
from polydl.schedule.teams import WAY_OUT
from polydl.target import preset
from tests.frontend.reading import scop
from tests.schedule import test_loopstring
from tests.schedule.test_loopstring import MATMUL, WAVE, blocks, structure

STEPS = """void steps(double x[restrict 9][50])
{
    for (int t = 0; t < 8; t++)
        for (int i = 1; i < 49; i++)
            x[t + 1][i] = 0.25 * x[t][i - 1] + 0.5 * x[t][i] + 0.25 * x[t][i + 1];
}
"""
IN_PLACE = """void own(double x[restrict 50], double a[restrict 8][50])
{
    for (int t = 0; t < 8; t++)
        for (int i = 0; i < 50; i++)
            x[i] = x[i] * 2 + a[t][i];
}
"""
SHORTER = """void shorter(double x[restrict 50], double a[restrict 8][50])
{
    for (int t = 0; t < 8; t++)
        for (int i = t; i < 50; i++)
            x[i] = x[i] * 2 + a[t][i];
}
"""
LAST_ROW = """void last(double x[restrict 7][7][8], double a[restrict 6][7][8])
{
    for (int d = 0; d < 6; d++)
        for (int c = 0; c < 7; c++)
            for (int i = 0; i < 8; i++)
                x[d + 1][c][i] = a[d][c][i] + x[d][c][7 - i];
}
"""
ONCE = """void once(double x[restrict 1][50], double a[restrict 8][50])
{
    for (int t = 0; t < 8; t++)
        for (int r = 0; r < 1; r++)
            for (int i = 0; i < 50; i++)
                x[r][i] = x[r][i] * 2 + a[t][i];
}
"""
LEGAL = [
    (MATMUL, "cAb@nowait", "mk=none"),
    (MATMUL, "cABb@nowait", "b=8;mk=none"),
    (MATMUL, "cA|b@schedule(dynamic,1) nowait", "mk=none"),
    (MATMUL, "cAb@nowait", "c=8;mk=4x16:k"),
    (MATMUL, "cAb@schedule(static,2) nowait", "c=8;mk=4x16:k;pack=A:i,B"),
    (MATMUL, "cA{R:3}B{C:2}@nowait", "c=8;mk=4x16:k"),
    (MATMUL, "cA{R:3}B{C:2}@nowait", "mk=none"),
    (MATMUL, "bc|A@nowait", "mk=none"),
    (STEPS, "aB|@nowait", ""),
    (STEPS, "aB|@schedule(guided) nowait", ""),
    (IN_PLACE, "aB@nowait", ""),
    (IN_PLACE, "aB@schedule(static,3) nowait", ""),
    (SHORTER, "aB|@nowait", ""),
    (LAST_ROW, "ab|C@nowait", ""),
    (LAST_ROW, "aB|c@nowait", ""),
    (LAST_ROW, "aBc@nowait", ""),
    (WAVE, "bAc@nowait", ""),
    (ONCE, "aBc@nowait", ""),
    (ONCE, "aBC@nowait", ""),
]
CROSSING = [
    (MATMUL, "cAb@schedule(dynamic,1) nowait", "mk=none", "dependence on C"),
    (MATMUL, "cbBa@nowait", "b=9;mk=none", "the same iterations each time"),
    (STEPS, "aB@nowait", "", "dependence on x"),
    (STEPS, "a|B@nowait", "", "dependence on x"),
    (IN_PLACE, "aB@schedule(guided,1) nowait", "", "dependence on x"),
    (SHORTER, "aB@nowait", "", "the same iterations each time"),
    (LAST_ROW, "abC@nowait", "", "dependence on x"),
    (WAVE, "baC@nowait", "", "dependence on B"),
]


def made_of(source: str, loops: str, sizes: str, folder: Path) -> tuple[Canonical, NestLoops]:
    found = canonical(scop(folder, source), form=Form.WRITTEN)
    (nest,) = nests(found.scop, found.dependences)
    return found, apply(nest, parse(nest, Written(loops, "-"), Written(sizes, "-"), blocks))  # type: ignore[arg-type]


def proof(found: Canonical, one: NestLoops, named: Generated | None = None) -> Proof:
    named = named or generate(found.scop, program_tree([Ordered.nest(one)]), instances=True)
    plain = replace(named, region=without_marks(named.region))
    return prove(found, *(splice(found.scop.source, [(found.scop, each)], "") for each in (plain, named)))


@pytest.mark.parametrize(("source", "loops", "sizes"), LEGAL)
def test_legal_ones_are_proved(tmp_path: Path, source: str, loops: str, sizes: str) -> None:
    found, made = made_of(source, loops, sizes, tmp_path)
    assert made.nowait
    assert check(found.scop, program_tree([Ordered.nest(made)]), found.dependences) is None
    shown = proof(found, made)
    assert shown.holds, shown.reason
    said = text(made)
    again = parse(made.nest, Written(said.loops, "-"), Written(said.blocks, "-"), blocks)
    assert again == made.transforms, said


@pytest.mark.parametrize(("source", "loops", "sizes", "reason"), CROSSING)
def test_crossing_ones_are_refused_by_check_and_proof(
    tmp_path: Path, source: str, loops: str, sizes: str, reason: str
) -> None:
    found, made = made_of(source, loops, sizes, tmp_path)
    wrong = check(found.scop, program_tree([Ordered.nest(made)]), found.dependences)
    assert wrong is not None and reason in wrong and wrong.endswith(WAY_OUT)
    assert not is_legal(made, nest_legality(made.nest, found.dependences))
    assert not proof(found, made).holds
    waiting = replace(made, nowait=False)
    assert check(found.scop, program_tree([Ordered.nest(waiting)]), found.dependences) is None


@pytest.mark.parametrize(
    ("source", "loops", "sizes", "reason"),
    [
        (MATMUL, "Abc@nowait", "mk=none", "no loop is around the parallel ones"),
        (MATMUL, "abc@nowait", "mk=none", "no loop is parallel"),
        (MATMUL, "cAB@hilbert nowait", "mk=none", "nowait beside hilbert"),
        (MATMUL, "aC{R:2+}b@nowait", "mk=none", "nowait beside copies of the output"),
        (MATMUL, "cA|b@wait", "mk=none", "not a schedule clause"),
        (MATMUL, "cAb|@nowait", "mk=none", "barrier inside a parallel loop"),
        (MATMUL, "cAb@nowait", "c=8;mk=4x16:k;pack=B:k.0", "B is copied between loops"),
    ],
)
def test_what_does_not_go_with_it(source: str, loops: str, sizes: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        structure(loops, sizes, source)
    assert reason in caught.value.reason
    assert caught.value.span is not None


def test_the_message_stands_at_the_string(tmp_path: Path) -> None:
    lines = [split_line(Written("aB@nowait", "lines.txt", 3))]
    with pytest.raises(InputError) as caught:
        pipeline.score(scop(tmp_path, STEPS), lines, Options(machine="epyc-zen5", threads=2))
    span = caught.value.span
    assert span is not None and (span.file, span.line, span.column) == ("lines.txt", 3, 1)
    assert WAY_OUT in caught.value.reason


def test_the_code(tmp_path: Path) -> None:
    found, made = made_of(MATMUL, "cb|A@schedule(static,2) nowait", "mk=none", tmp_path)
    region = generate(found.scop, program_tree([Ordered.nest(made)])).region
    lines = [line.strip() for line in region.splitlines() if "omp" in line or "for (" in line]
    assert lines == [
        "#pragma omp parallel",
        "for (int c0 = 0; c0 <= 39; c0++) {",
        "for (int c1 = 0; c1 <= 47; c1++) {",
        "#pragma omp for schedule(static,2) nowait",
        "for (int c2 = 0; c2 <= 59; c2++) {",
        "#pragma omp barrier",
    ]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("loops", "sizes"), [(loops, sizes) for source, loops, sizes in LEGAL if source is MATMUL])
def test_the_result_is_right_whatever_the_number_of_threads(loops: str, sizes: str, threads: int) -> None:
    test_loopstring.test_the_result_is_right_whatever_the_number_of_threads(loops, sizes, threads)


def test_the_proof_reads_barriers_and_schedules(tmp_path: Path) -> None:
    """Texts that differ from a proved one in what threads wait for."""
    found, made = made_of(STEPS, "aB|@nowait", "", tmp_path)
    named = generate(found.scop, program_tree([Ordered.nest(made)]), instances=True)
    assert "omp for schedule(static)\n" in named.region
    without = replace(named, region=named.region.replace("schedule(static)\n", "schedule(static) nowait\n"))
    assert proof(found, made, without).verdict == "wrong"
    found, made = made_of(IN_PLACE, "aB@nowait", "", tmp_path)
    named = generate(found.scop, program_tree([Ordered.nest(made)]), instances=True)
    for old, new, verdict in (
        (" nowait", "", "proved"),
        ("schedule(static)", "schedule(static, 7)", "proved"),
        ("schedule(static)", "schedule(dynamic)", "wrong"),
        ("omp for", "omp parallel for", "open"),
        ("omp parallel\n", "omp master\n", "open"),
        ("c1 = 0; c1 <= 49", "c1 = 0; c1 <= 49 + 0 * c0", "wrong"),
    ):
        assert old in named.region
        changed = replace(named, region=named.region.replace(old, new))
        assert proof(found, made, changed).verdict == verdict, changed.region


def strings(count: int) -> Iterator[tuple[str, str, str]]:
    """Loop strings with nowait, legal or not."""
    rng = random.Random(3)
    for _ in range(count):
        source = rng.choice([MATMUL, STEPS, LAST_ROW, WAVE, SHORTER])
        letters = list("ab" if source in (STEPS, SHORTER) else "abc")
        sizes = []
        if rng.random() < 0.4:
            letter = rng.choice(letters)
            letters.append(letter)
            sizes.append(f"{letter}={rng.choice([2, 3, 4])}")
        rng.shuffle(letters)
        first = rng.randint(1, len(letters) - 1)
        for place in range(first, min(len(letters), first + rng.randint(1, 2))):
            letters[place] = letters[place].upper()
        for place in range(first + 1):
            letters[place] += "|" * (rng.random() < 0.3)
        clause = rng.choice(["", "", "schedule(static,2) ", "schedule(dynamic,1) "])
        yield (
            source,
            "".join(letters) + f"@{clause}nowait",
            ";".join([*sizes, *(["mk=none"] if source is MATMUL else [])]),
        )


def test_check_and_proof_agree_on_random_ones(tmp_path: Path) -> None:
    """The proof knows the text only. It takes some that the check refuses: it sees the loops that there are."""
    legal = refused = 0
    for source, loops, sizes in strings(60):
        found, made = made_of(source, loops, sizes, tmp_path)
        wrong = check(found.scop, program_tree([Ordered.nest(made)]), found.dependences)
        shown = proof(found, made)
        assert shown.holds == (wrong is None) or (wrong or "").startswith("threads of one team"), (loops, sizes, wrong)
        assert wrong is None or not is_legal(made, nest_legality(made.nest, found.dependences)), (loops, sizes)
        legal += wrong is None
        refused += wrong is not None and WAY_OUT in wrong
    assert legal >= 10 and refused >= 5, (legal, refused)


@pytest.mark.parametrize("threads", [1, 4])
def test_estimates_by_either_way(tmp_path: Path, threads: int) -> None:
    machine = preset("epyc-zen3")
    for source, loops, sizes in [(s, *rest) for s, *rest in LEGAL if s is not SHORTER]:
        found, made = made_of(source, loops, sizes, tmp_path)
        footprints = footprints_of(found.scop, made.nest.statements)
        (batch,) = resources_of(found.scop, made.nest, [made], machine, threads).estimates(machine, threads).each()
        one = tree_estimate(footprints, as_tree(made), machine, threads)
        assert one.seconds == pytest.approx(batch.seconds, rel=1e-6, abs=1e-18), loops
        assert one.counts == pytest.approx(batch.counts, rel=1e-6), loops


@pytest.mark.parametrize(
    ("loops", "forks"), [("cAb", 40), ("cAb@nowait", 1), ("cA|b@nowait", 41), ("bcA@nowait", 1), ("bc|A@nowait", 49)]
)
def test_threads_are_started_once_and_wait_at_barriers(tmp_path: Path, loops: str, forks: int) -> None:
    found, made = made_of(MATMUL, loops, "mk=none", tmp_path)
    machine = preset("epyc-zen3")
    (estimate,) = resources_of(found.scop, made.nest, [made], machine, 2).estimates(machine, 2).each()
    assert estimate.counts["forks"] == forks
