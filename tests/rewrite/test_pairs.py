"""Random pairs of nests: fused exactly when the conditions hold by enumeration, and then with the same results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polydl import pipeline
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.schedule.fused_scop import fuse
from polydl.schedule.fusion_groups import Plan, plan
from polydl.schedule.ordered import written
from polydl.schedule.program_tree import program_tree
from tests.rewrite.executing import called, compiled
from tests.rewrite.pairs import Pair, data, pair

PAIRS = 160


def decided(found: Plan, made: Pair) -> bool:
    """Whether the light nest of a pair is fused into the heavy one."""
    names = [f"S{n}" for n in range(len(made.nests))]
    heavy, light = names[made.heavy], names[made.light]
    return any(d.heavy == heavy and d.light == light and d.failure is None for d in found.decisions)


def check_decision(made: Pair, folder: Path) -> bool:
    path = folder / f"{made.name}.c"
    path.write_text(made.text())
    scop = pipeline.load(path).scops[0]
    found = plan(nests(scop, dependences(scop, reads=False)))
    assert decided(found, made) == made.fusable(), made.text() + "\n".join(map(str, found.decisions))
    for decision in found.decisions:
        assert decision.failure is None or re.search(
            r"\w+\[[-\d, ]*\]|does not touch|starts from", str(decision.failure)
        )
    return made.fusable()


def test_fused_exactly_when_the_conditions_hold_and_results_are_equal(tmp_path: Path) -> None:
    texts: list[str] = []
    fusable = 0
    for seed in range(PAIRS):
        made = pair(seed)
        fusable += check_decision(made, tmp_path)
        program = pipeline.load(tmp_path / f"{made.name}.c")
        fused = fuse(program.scops[0])
        parts = nests(fused.scop, dependences(fused.scop, reads=False), fused.together)
        code = generate(fused.scop, program_tree([written(part) for part in parts]))
        texts.append(splice(program.source, [(program.scops[0], code)], ""))
    assert PAIRS // 5 < fusable < PAIRS * 4 // 5
    library = compiled(tmp_path, "all", ["\n".join(dict.fromkeys(texts))])
    for seed in range(PAIRS):
        made, arrays = pair(seed), data(seed)
        got, want = called(library, made.name, arrays), made.expected(arrays)
        for name, values in want.items():
            assert np.array_equal(got[name], values), f"{name} differs\n{made.text()}\n{texts[seed]}"


@given(st.integers(PAIRS, 1 << 40))
def test_decisions_of_any_pair(tmp_path_factory: object, seed: int) -> None:
    made = pair(seed)
    folder = tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    check_decision(made, folder)
