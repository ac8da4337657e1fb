"""The part of collecting that needs no quiet machine: rank, sample, generate, compile. Runs in worker processes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from polydl import pipeline
from polydl.base.errors import PolyDLError
from polydl.base.version import __version__
from polydl.learn.collect.problems import Problem
from polydl.learn.collect.sample import chosen_sample, scored
from polydl.measure import Measurement, MeasureOptions, Status
from polydl.measure.bulk import BuiltMany, build_many, may_precompile, precompiled
from polydl.measure.verify import Built
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank import rankers

RANKERS = ("traffic", "trace", "cost")
"""The first one orders the space; the others add their favourites. All of them score what is measured, but for
variants with a schedule of their own: the others know nests only."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A variant that is to be measured."""

    recipe: str
    """JSON."""
    origin: str
    features: Mapping[str, float]
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A problem, ready to be measured: plain data, so that it can go from one process to another."""

    problem: Problem
    planned: Mapping[str, Planned]
    """By variant id."""
    built: BuiltMany | None
    """None when it could not be prepared."""
    error: str = ""
    """Why, for people."""


def options_for(problem: Problem, threads: int, space: str, seed: int, isa: str | None) -> Options:
    """polydl's options for a problem."""
    return Options(defines=dict(problem.macros), threads=threads, space=space, seed=seed, isa=isa)


def scop_of(problem: Problem, options: Options) -> Scop:
    """The problem's scop as it is read, which variants are measured against. Raises InputError."""
    return pipeline.only_scop(pipeline.load(problem.source, options))


def prepare(problem: Problem, options: Options, count: int, measuring: MeasureOptions, scratch: Path) -> Prepared:
    """Choose `count` variants of a problem and build them in a folder of `scratch`, or find them built there before."""
    text = json.dumps([__version__, dict(problem.macros), problem.source.read_text(encoding="utf-8"), count,
                       options.threads, options.space, options.seed, options.isa])  # fmt: skip
    folder = scratch / hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        if (folder / _RECORD).is_file():
            return _loaded(problem, folder)
        made = _prepare(problem, options, count, measuring, folder)
    except PolyDLError as error:
        return Prepared(problem, {}, None, error.render())
    _save(made, folder)
    return made


_RECORD = "prepared.json"


def _save(prepared: Prepared, folder: Path) -> None:
    built = prepared.built
    assert built is not None
    document = {
        "planned": {name: asdict(planned) for name, planned in prepared.planned.items()},
        "libraries": {one.id: one.library for one in (built.original, *built.candidates)},
        "failed": {m.id: m.message for m in built.failed},
    }
    unfinished = folder / (_RECORD + ".new")
    unfinished.write_text(json.dumps(document))
    unfinished.rename(folder / _RECORD)


def _loaded(problem: Problem, folder: Path) -> Prepared:
    document = json.loads((folder / _RECORD).read_text())
    original, *candidates = [Built(name, library) for name, library in document["libraries"].items()]
    failed = [Measurement(name, Status.COMPILE_FAILED, message) for name, message in document["failed"].items()]
    planned = {name: Planned(**values) for name, values in document["planned"].items()}
    return Prepared(problem, planned, BuiltMany(folder, original, tuple(candidates), tuple(failed)))


def _prepare(problem: Problem, options: Options, count: int, measuring: MeasureOptions, folder: Path) -> Prepared:
    scop = scop_of(problem, options)
    ranking = pipeline.rank(scop, ranker=RANKERS[0], options=options)
    # By its own sizes, not its place in the file: a sample stays the same when the list changes.
    text = f"{options.seed} {problem.source.name} {sorted(problem.macros.items())}"
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
    others = {name: rankers.named(name) for name in RANKERS[1:]}
    sample = [(variant, why) for variant, why in chosen_sample(ranking, others, count, rng) if variant.illegal is None]
    variants = [variant for variant, _ in sample]
    features: list[dict[str, float]] = [{} for _ in variants]
    scores = [{ranking.ranker: variant.score} for variant in variants]
    in_nests = [i for i, variant in enumerate(variants) if not variant.scheduled]
    for name in RANKERS:
        ranker, some = rankers.named(name), [variants[i] for i in in_nests]
        found = scored(ranking.scop, ranking.nests, some, ranker, ranking.machine, ranking.threads)
        for i, estimate in zip(in_nests, found, strict=True):
            scores[i][name] = estimate.score
            features[i] |= {f"{name}.{feature}": value for feature, value in estimate.features.items()}
    planned = {v.id: Planned(v.recipe.to_json(), why, features[i], scores[i]) for i, (v, why) in enumerate(sample)}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    toolchain = options.toolchain()
    toolchain = precompiled(toolchain, folder) if may_precompile(scop) else toolchain
    built = build_many(scop, {v.id: v.generated for v in variants}, toolchain, measuring, folder)
    for bulky in (*folder.glob("*.gch"), *folder.glob("*.c")):
        bulky.unlink()
    return Prepared(problem, planned, built)
