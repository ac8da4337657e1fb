"""Training data: measurements of a store or a Parquet file, as one group of variants a problem."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polydl import pipeline
from polydl.base.errors import InputError, PolyDLError, StoreError
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import Nest, nests
from polydl.learn.train import parquet
from polydl.measure.bulk import STALL, quiet
from polydl.measure.store import Store, StoredMeasurement
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank.features import FEATURES_VERSION, FeatureMatrix, features
from polydl.rank.paper_model import INPUTS
from polydl.rank.ranker import FloatArray, Ranker
from polydl.rank.rankers import named
from polydl.rewrite.scalars import in_place
from polydl.schedule.recipe import Recipe
from polydl.schedule.structure import Structure, apply
from polydl.target import Machine, loads

_LEAST_NOISE = 0.005
"""Standard deviation of a logarithm of seconds, at least: what remains when the machine is quiet."""
_FEW_NOISE = 0.05
"""With less than six samples."""
_SLOW_NOISE = 0.1
"""Of a single verification run."""
_FEWEST = 4
"""Variants that a problem needs to be of any use."""


@dataclass(frozen=True, slots=True)
class Group:
    """The measured variants of one problem on one machine, V of them."""

    workload: str
    problem: str
    kernel: str
    """Name of the function."""
    sizes: str
    """JSON object: the macros."""
    operations: float
    ids: tuple[str, ...]
    origins: tuple[str, ...]
    features: FloatArray
    """(V, F)."""
    traffic_seconds: FloatArray
    """(V,)."""
    working_sets: FloatArray
    """(V, 4) bytes that L1, L2, L3 and memory serve."""
    scores: dict[str, FloatArray]
    """(V,) of the analytic rankers that were asked for, by name, as this version of polydl computes them."""
    log_seconds: FloatArray
    """(V,) natural logarithms of the seconds without disturbances (polydl.measure.bulk.quiet)."""
    noise: FloatArray
    """(V,) standard deviations of `log_seconds`."""
    original: float | None
    """Seconds of the code as it was written."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def gaps(self) -> FloatArray:
        """(V,) `log_seconds` less that of the best."""
        return np.asarray(self.log_seconds - self.log_seconds.min())


@dataclass(frozen=True, slots=True)
class DataSet:
    """Groups, and what they come from."""

    groups: tuple[Group, ...]
    digest: str
    """SHA-256 over what was measured (ids, sizes, medians): identifies the data whatever file they lie in."""
    machines: tuple[str, ...]
    """Fingerprints."""
    rows: int

    def where(self, keep: Callable[[Group], bool]) -> DataSet:
        """Some of the groups."""
        return DataSet(tuple(g for g in self.groups if keep(g)), self.digest, self.machines, self.rows)

    @property
    def variants(self) -> int:
        return sum(len(g) for g in self.groups)


def load_data(path: Path, progress: Callable[[int, int], None] | None = None, rankers: Sequence[str] = ()) -> DataSet:
    """Read a store (SQLite) or its export (Parquet) and compute the features of what was measured, and the scores of
    the analytic `rankers`.

    Raises StoreError and InputError for files that cannot be read or used.
    """
    if path.suffix == ".parquet":
        exported = parquet.read(path)
        return groups_of(exported.rows, exported.kernels, exported.machines, progress, rankers)
    with Store(path, read_only=True) as store:
        rows = list(store.rows())
        kernels = {name: store.kernel(name) for name in {row.kernel for row in rows}}
        machines = {name: store.machine(name) for name in {row.machine for row in rows}}
    return groups_of(rows, kernels, machines, progress, rankers)


def groups_of(
    rows: Sequence[StoredMeasurement],
    kernels: dict[str, tuple[str, str]],
    machines: dict[str, str],
    progress: Callable[[int, int], None] | None = None,
    rankers: Sequence[str] = (),
) -> DataSet:
    """One group for each problem, machine and number of threads, in the order of the rows.

    `kernels`: (function, C text) by hash; `machines`: TOML by fingerprint. Raises InputError when nothing is of use.
    """
    by_problem: dict[tuple[object, ...], list[StoredMeasurement]] = {}
    for row in rows:
        key = (row.kernel, json.dumps(dict(row.sizes), sort_keys=True), row.threads, row.machine)
        by_problem.setdefault(key, []).append(row)
    known = {name: loads(text, name) for name, text in machines.items()}
    groups = []
    with tempfile.TemporaryDirectory(prefix="polydl-train-") as name:
        sources = {}
        for hash_, (_, text) in kernels.items():
            sources[hash_] = Path(name, f"{hash_}.c")
            sources[hash_].write_text(text, encoding="utf-8")
        for number, some in enumerate(by_problem.values(), start=1):
            found = _group(some, sources[some[0].kernel], known[some[0].machine], rankers)
            if found is not None:
                groups.append(found)
            if progress:
                progress(number, len(by_problem))
    if not groups:
        raise InputError("the data hold no problem with enough verified variants", hint="polydl collect makes them")
    return DataSet(tuple(groups), digest(rows), tuple(sorted(known)), len(rows))


def digest(rows: Iterable[StoredMeasurement]) -> str:
    """See `DataSet.digest`."""
    lines = sorted(
        json.dumps([r.kernel, dict(r.sizes), r.threads, r.machine, r.variant, r.status, r.median], sort_keys=True)
        for r in rows
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def structures_of(scop: Scop, parts: Sequence[Nest], recipe: str) -> list[Structure]:
    """The structures of a recipe's JSON text, a nest each. Raises InputError."""
    made = Recipe.from_json(recipe)
    return [apply(part, one.transforms) for part, one in zip(parts, made.nests, strict=True)]


def _group(rows: Sequence[StoredMeasurement], source: Path, machine: Machine, rankers: Sequence[str]) -> Group | None:
    usable = [r for r in rows if r.verified and r.samples and r.variant != "original"]
    if len(usable) < _FEWEST:
        return None
    first = usable[0]
    try:
        scop = in_place(pipeline.only_scop(pipeline.load(source, Options(defines=dict(first.sizes)))))
        parts = nests(scop, dependences(scop, reads=False))
        made = [structures_of(scop, parts, row.recipe) for row in usable]
    except PolyDLError as error:
        raise StoreError(
            f"the measurements of {first.problem} cannot be read by this version of polydl: {error.reason}"
        ) from error
    best = min(quiet(r.samples) for r in usable)
    trusted = [not _doubtful(r, one, best) for r, one in zip(usable, made, strict=True)]
    usable = [r for r, sure in zip(usable, trusted, strict=True) if sure]
    made = [one for one, sure in zip(made, trusted, strict=True) if sure]
    heavy = next((n for n, part in enumerate(parts) if part.contraction is not None), None)
    if heavy is None:
        return None
    matrix: FeatureMatrix | None = features(scop, parts[heavy], [m[heavy] for m in made], machine, first.threads)
    if matrix is None:
        return None
    operations = 2.0
    for count in parts[heavy].counts.values():
        operations *= count.extent or 1
    original = next((r.median for r in rows if r.variant == "original" and r.median is not None), None)
    return Group(
        first.workload,
        first.problem,
        scop.function,
        json.dumps(dict(first.sizes), sort_keys=True),
        operations,
        tuple(r.variant for r in usable),
        tuple(r.origin for r in usable),
        matrix.values,
        matrix.traffic_seconds,
        np.array([[r.features.get(f"cost.{name}", 0.0) for name in INPUTS] for r in usable]),
        {name: _scores(scop, parts, made, named(name), machine, first.threads) for name in rankers},
        np.log([quiet(r.samples) for r in usable]),
        np.array([_noise(r) for r in usable]),
        original,
    )


def _scores(
    scop: Scop,
    parts: Sequence[Nest],
    made: Sequence[Sequence[Structure]],
    ranker: Ranker,
    machine: Machine,
    threads: int,
) -> FloatArray:
    """(V,) sums over the nests. What the rankers said when the variants were measured is in the data too, and tells
    nothing about the rankers of today."""
    scores = np.zeros(len(made))
    for number, part in enumerate(parts):
        scores += ranker.rank(scop, part, [one[number] for one in made], machine, threads).scores
    return scores


def _doubtful(row: StoredMeasurement, structures: Sequence[Structure], best: float) -> bool:
    """Whether a single run may have been slow for a stall's sake: it is not far beyond the best in absolute terms, and
    there is a microkernel, without which nobody would doubt it."""
    plain = all(s.kernel is None for s in structures)
    return "slow" in row.marks and not plain and min(row.samples) < best + STALL


def _noise(row: StoredMeasurement) -> float:
    """Standard deviation of the logarithm of the seconds: the spread of the quicker third of the samples stands for
    it, since the others may have been disturbed."""
    if "slow" in row.marks:
        return _SLOW_NOISE
    if len(row.samples) < 6:
        return _FEW_NOISE
    return max(_LEAST_NOISE, (float(np.percentile(row.samples, 33)) - min(row.samples)) / 2 / quiet(row.samples))


__all__ = ["FEATURES_VERSION", "DataSet", "Group", "digest", "groups_of", "load_data", "structures_of"]
