"""Conditions that vectors compare with zero, and elements that a condition keeps from being read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.lower.emit import generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import load, rank, with_fused
from polydl.prove import prove
from polydl.search.proofs import proof_of
from tests.programs.corpus import catalogue

FOLDER = Path(__file__).parents[1] / "everyday"

OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


@pytest.mark.parametrize("name", ["dropout_residual_norm", "shift_masked", "integral_image"])
def test_right_code_is_not_said_to_be_wrong(name: str) -> None:
    entry = catalogue(FOLDER)[name]
    values = entry.sizes[0]
    defines, sizes = entry.defines(values), entry.parameters(values)
    (scop,) = load(entry.path, options=OPTIONS, defines=defines, sizes=sizes).scops
    ranking = with_fused(rank(scop, options=OPTIONS), OPTIONS)
    variant = next(v for v in ranking.variants if v.unusable is None)
    proof = proof_of(ranking.program, variant, OPTIONS)
    assert proof.holds, proof.reason
    if name != "integral_image":
        return
    named = generate(variant.program, variant.tree, instances=True)
    for pattern, new in ((r"\+ sat\[19 \* c0 \+ c1\]", "+ sat[19 * c0]"), (r"\(0\) > 0 \?", "(1) > 0 ?")):
        text, times = re.subn(pattern, new, named.region)
        assert times == 1
        wrong = replace(named, region=text), replace(named, region=without_marks(text))
        texts = [splice(scop.source, [(scop, one)], "") for one in reversed(wrong)]
        assert prove(ranking.program, *texts, rewritten=variant.program).verdict == "wrong"
