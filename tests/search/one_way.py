"""Code for all sizes in one way for all of them: as `optimize` writes it, and with the marks that a proof reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import polydl
from polydl import pipeline
from polydl.lower.instance_marks import without_marks
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.prove import Proof, prove_every_size
from polydl.rank.estimator import Estimator
from polydl.results import OptimizeResult
from polydl.search.sizes import blocks, choose
from polydl.search.sizes.blocks import every_size_in_blocks
from polydl.search.sizes.code import EverySize, Setting, Symbolic
from tests.efforts import FEW

OPTIONS = Options(machine="epyc-zen5", threads=2, space="small")


def outputs(source: str, variants: Iterable[int], options: Options) -> Iterator[OptimizeResult]:
    """What `optimize` writes, without a run, where each of these variants is taken for all sizes, or the last one where
    there are fewer. What is searched and estimated is the same for all of them: it is so once."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr(pipeline, "rank", once(pipeline.rank, _program))
        context.setattr(blocks, "_estimated", _estimated_of(source))
        for variant in variants:
            with _taken(variant):
                yield polydl.optimize(source, options=options, run=False)


_estimated = blocks._estimated


@cache
def _estimated_of(source: str) -> Callable[..., Any]:
    """What ways to run a program take, each estimated once."""
    return once(_estimated, _points_and_ways)


@contextmanager
def _taken(variant: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as context:
        context.setattr(choose, "tree", lambda losses, features: min(variant, len(losses) - 1))
        yield


def once(function: Callable[..., Any], key: Callable[..., object]) -> Callable[..., Any]:
    """The function, called once for arguments with one key."""
    known: dict[object, Any] = {}

    def called(*arguments: Any, **more: Any) -> Any:
        of = key(*arguments, **more)
        if of not in known:
            known[of] = function(*arguments, **more)
        return known[of]

    return called


def _program(scop: Scop, **_: object) -> object:
    """What a program is among those that are made of one source."""
    return tuple((s.name, str(s.domain)) for s in scop.statements), tuple(scop.sizes.items())


def _points_and_ways(points: Sequence[Estimator], ways: Sequence[Sequence[object]], *more: object) -> object:
    at = tuple(tuple(point.scop.sizes.items()) for point in points)
    return at, tuple(map(tuple, ways)), str(more)


def in_one_way(source: str, variant: int, largest: int = 2048) -> tuple[Scop, EverySize]:
    """A program with its sizes as parameters, and its code in one way for all sizes of more than one column."""
    with _taken(variant), pytest.MonkeyPatch.context() as context:
        context.setattr(blocks, "_estimated", _estimated_of(source))
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
