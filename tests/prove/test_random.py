"""Random programs: their best variants are proved, and a text that is proved computes what they compute."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import Phase, given, seed, settings

from polydl.base.errors import InputError
from polydl.frontend import load
from polydl.lower.emit import generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.pipeline import rank
from polydl.search.proofs import proof_of
from polydl.search.timing_order import TimingOrder
from tests.compiling import run_compiler, run_program
from tests.fuzz.whole import OPTIONS, PLAIN, main_text
from tests.oracle import Limits, Program, initial_data, interpret, programs, render
from tests.prove import mutations
from tests.prove.mutations import Subject

LIMITS = Limits()
KINDS = (mutations.lower_bound, mutations.subscript, mutations.reordered, mutations.racy, mutations.swapped_loops)


def subjects_of(program: Program, folder: Path, most: int) -> list[Subject]:
    """The best variants of a program with one region, each of them proved. Raises InputError."""
    path = folder / f"{program.name}.c"
    path.write_text(render(program))
    body = path.read_text()[path.read_text().rindex("\n{") :]
    sizes = {n: v for n, v in program.parameters.items() if re.search(rf"\b{n}\b", body)}
    scops = load(path, sizes=sizes).scops
    if len(scops) != 1:
        return []
    ranking = rank(scops[0], options=OPTIONS)
    found = []
    for variant in TimingOrder(ranking.variants, most).next({}, most):
        proof = proof_of(ranking.program, variant, OPTIONS)
        assert proof.verdict != "wrong", f"{proof.reason}\n{render(program)}\n{variant.generated.region}"
        TALLY[proof.verdict, re.sub(r"\d+", "N", proof.reason)] += 1
        marked = generate(variant.program, variant.tree, instances=True)
        found.append(Subject(program.name, ranking.program, variant, marked))
    return found


TALLY: Counter[tuple[str, str]] = Counter()
"""Verdicts, with the reasons of those that are open."""


def differs(program: Program, text: str, folder: Path) -> str:
    """What a text computes otherwise than the interpreter; '' where it does the same."""
    data = initial_data(program, seed=1)
    expected = interpret(program, data).memory
    source, binary = folder / "mutant.c", folder / "mutant"
    text = re.sub(rf"\b{program.name}\b", f"{program.name}_v0", text)
    source.write_text(text + main_text(program, data, expected, 1))
    run_compiler(["cc", *PLAIN, str(source), "-o", str(binary), "-lm"])
    done = run_program([str(binary)], check=False)
    return done.stdout + ("" if done.returncode == 0 else f"exit code {done.returncode}")


def explore(count: int, number: int, most: int) -> None:
    """`count` random programs that only `number` determines."""

    @seed(number)
    @settings(max_examples=count, deadline=None, database=None, phases=(Phase.generate,))
    @given(programs(LIMITS))
    def run(program: Program) -> None:
        with tempfile.TemporaryDirectory(prefix="polydl-prove-") as name:
            folder = Path(name)
            try:
                found = subjects_of(program, folder, most)
            except InputError:
                return
            for subject in found[:1]:
                for kind, what, named in mutations.mutants(subject, KINDS, number):
                    proof, _ = subject.mutant(named)
                    TALLY[f"mutant {proof.verdict}", ""] += 1
                    if proof.holds:
                        plain = replace(named, region=without_marks(named.region))
                        text = splice(subject.origin.read.source, [(subject.origin.read, plain)], "")
                        wrong = differs(program, text, folder)
                        assert not wrong, f"proved, but {wrong}\n{kind}: {what}\n{render(program)}\n{named.region}"

    run()


def test_random_programs() -> None:
    TALLY.clear()
    explore(count=4, number=7, most=2)
    verdicts = Counter(verdict for (verdict, _), count in TALLY.items() for _ in range(count))
    assert verdicts["proved"] >= 4 and verdicts["mutant wrong"] >= 4, TALLY
    assert verdicts["open"] == 0, TALLY
