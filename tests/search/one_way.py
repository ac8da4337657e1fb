"""Code for all sizes in one way for all of them, with the marks that a proof reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polydl
from polydl.lower.instance_marks import without_marks
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.prove import Proof, prove_every_size
from polydl.search import every_size as search
from polydl.search.every_size import EverySize, every_size

OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


def in_one_way(source: str, variant: int, largest: int = 2048) -> tuple[Scop, EverySize]:
    """A program with its sizes as parameters, and its code in one way for all sizes of more than one column."""
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(search, "_POINTS", 8)
        context.setattr(search, "_FURTHER", 4)
        context.setattr(search, "tree", lambda losses, features: min(variant, len(losses) - 1))
        (scop,) = polydl.load(source, OPTIONS, require_sizes=False, rows_fit=True).scops
        sizes = dict.fromkeys(scop.parameters, (1, largest))
        found = every_size(scop, sizes, OPTIONS.target(), 2, reassociate=True, instances=True)
    assert isinstance(found, EverySize), found
    return scop, found


def proof_of(scop: Scop, found: EverySize, region: str | None = None) -> Proof:
    """Of the code, or of another text in place of it."""
    assert found.marked is not None
    marked = found.marked if region is None else replace(found.marked, region=region)
    return prove_every_size(scop, replace(found.generated, region=without_marks(marked.region)), marked)
