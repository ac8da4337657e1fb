"""Code for all sizes in one way for all of them, with the marks that a proof reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polydl
from polydl.lower.instance_marks import without_marks
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.prove import Proof, prove_every_size
from polydl.search.sizes import choose
from polydl.search.sizes.blocks import every_size_in_blocks
from polydl.search.sizes.code import EverySize, Setting, Symbolic
from tests.efforts import FEW

OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


def in_one_way(source: str, variant: int, largest: int = 2048) -> tuple[Scop, EverySize]:
    """A program with its sizes as parameters, and its code in one way for all sizes of more than one column."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr(choose, "tree", lambda losses, features: min(variant, len(losses) - 1))
        (scop,) = polydl.load(source, OPTIONS, require_sizes=False, rows_fit=True).scops
        sizes = dict.fromkeys(scop.parameters, (1, largest))
        setting = Setting(OPTIONS.target(), 2, instances=True, effort=FEW)
        found = every_size_in_blocks(Symbolic.of(scop), sizes, setting)
    assert isinstance(found, EverySize), found
    return scop, found


def proof_of(scop: Scop, found: EverySize, region: str | None = None) -> Proof:
    """Of the code, or of another text in place of it."""
    assert found.marked is not None
    marked = found.marked if region is None else replace(found.marked, region=region)
    return prove_every_size(scop, replace(found.generated, region=without_marks(marked.region)), marked)
