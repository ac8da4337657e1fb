"""Training data: measurements of a store or a Parquet file, as one group of variants per problem."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from polydl import pipeline
from polydl.base.errors import InputError, PolyDLError, StoreError
from polydl.dependences.nests import Nest, nests
from polydl.learn.train import parquet
from polydl.measure.bulk import STALL
from polydl.measure.rounds import undisturbed
from polydl.measure.store import Store, StoredMeasurement
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank.features import FEATURES_VERSION, FeatureMatrix, features
from polydl.rank.paper_model import INPUTS
from polydl.rank.ranker import FloatArray, Ranker
from polydl.rank.rankers import named
from polydl.rewrite.canonical import canonical
from polydl.schedule.loops import NestLoops
from polydl.schedule.ordered import ordered
from polydl.schedule.recipe import Recipe
from polydl.schedule.transforms import Schedule
from polydl.target import Machine, loads

_LEAST_NOISE = 0.005
"""Standard deviation of a logarithm of seconds, at least: what remains when the machine is quiet."""
_FEW_NOISE = 0.05
"""With less than three samples."""
_SLOW_NOISE = 0.1
"""Of a single verification run."""
_SLOW = "slow"
"""The mark of a variant that was timed by its verification run."""
_FEWEST = 4
"""Variants that a problem needs to be of any use."""


@dataclass(frozen=True, slots=True)
class Group:
    """The measured variants of one problem on one machine, V of them."""

    workload: str
    problem: str
    machine: str
    """Fingerprint."""
    kernel: str
    """Name of the function."""
    sizes: str
    """JSON object: the macros."""
    operations: float
    ids: tuple[str, ...]
    recipes: tuple[Recipe, ...]
    origins: tuple[str, ...]
    features: FloatArray
    """(V, F)."""
    traffic_seconds: FloatArray
    """(V,)."""
    terms: Mapping[str, FloatArray]
    """(V,) each: its parts, by resource."""
    working_sets: FloatArray
    """(V, 4) bytes that L1, L2, L3 and memory serve."""
    scores: dict[str, FloatArray]
    """(V,) of the analytic rankers that were asked for, by name, as this version of polydl computes them."""
    log_seconds: FloatArray
    """(V,) natural logarithms of the seconds without disturbances (polydl.measure.rounds)."""
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
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that no group has, verified and timed as they are, by the reason."""

    def where(self, keep: Callable[[Group], bool]) -> DataSet:
        """Some of the groups."""
        return replace(self, groups=tuple(g for g in self.groups if keep(g)))

    @property
    def variants(self) -> int:
        return sum(len(g) for g in self.groups)


def load_data(path: Path, progress: Callable[[int, int], None] | None = None, rankers: Sequence[str] = ()) -> DataSet:
    """Read a store (SQLite), its export (Parquet), or a folder of exports, and compute the features of what was
    measured, and the scores of the analytic `rankers`.

    Raises StoreError and InputError for files that cannot be read or used.
    """
    rows, kernels, machines = read_rows(path)
    return groups_of(rows, kernels, machines, progress, rankers)


def read_rows(path: Path) -> tuple[Sequence[StoredMeasurement], dict[str, tuple[str, str]], dict[str, str]]:
    """What a store, its export, or a folder of exports has: measurements, (function, C text) by hash, machines' TOML by
    fingerprint. Raises StoreError and InputError."""
    if path.is_dir() or path.suffix == ".parquet":
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} has no measurements", hint="polydl collect makes them (*.parquet)")
        exported = parquet.together([parquet.read(file) for file in files])
        return exported.rows, exported.kernels, exported.machines
    with Store(path, read_only=True) as store:
        rows = list(store.rows())
        kernels = {name: store.kernel(name) for name in {row.kernel for row in rows}}
        machines = {name: store.machine(name) for name in {row.machine for row in rows}}
    return rows, kernels, machines


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
    by_problem = by_problems(rows)
    known = {name: loads(text, name) for name, text in machines.items()}
    groups = []
    left_out: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="polydl-train-") as name:
        sources = {}
        for hash_, (_, text) in kernels.items():
            sources[hash_] = Path(name, f"{hash_}.c")
            sources[hash_].write_text(text, encoding="utf-8")
        for number, some in enumerate(by_problem, start=1):
            found = _group(some, sources[some[0].kernel], known[some[0].machine], rankers, left_out)
            if found is not None:
                groups.append(found)
            if progress:
                progress(number, len(by_problem))
    if not groups:
        why = "".join(f"; {count} rows left out: {reason}" for reason, count in (+left_out).items())
        reason = f"the data hold no problem with enough verified variants{why}"
        raise InputError(reason, hint="polydl collect makes them")
    return DataSet(tuple(groups), digest(rows), tuple(sorted(known)), len(rows), dict(+left_out))


def by_problems(rows: Iterable[StoredMeasurement]) -> list[list[StoredMeasurement]]:
    """The rows of each problem, machine and number of threads, in their order."""
    found: dict[tuple[object, ...], list[StoredMeasurement]] = {}
    for row in rows:
        key = (row.kernel, json.dumps(dict(row.sizes), sort_keys=True), row.threads, row.machine)
        found.setdefault(key, []).append(row)
    return list(found.values())


def digest(rows: Iterable[StoredMeasurement]) -> str:
    """See `DataSet.digest`."""
    lines = sorted(
        json.dumps([r.kernel, dict(r.sizes), r.threads, r.machine, r.variant, r.status, r.median], sort_keys=True)
        for r in rows
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


SCHEDULED = "it has a schedule of its own, and rankers that learn know nests only"
FEW = f"fewer than {_FEWEST} variants of its problem are of use"
PLAIN = "its problem has no contraction"
"""Why a row is left out."""


def structures_of(parts: Sequence[Nest], recipe: Recipe) -> list[NestLoops]:
    """The structures of a recipe, one per nest. Raises InputError where the program has other nests."""
    named = {nest.nest: nest.transforms for nest in recipe.nests}
    if named.keys() != {part.name for part in parts}:
        known = ", ".join(part.name for part in parts)
        raise InputError(f"the recipe is of the nests {', '.join(named)}, the program has {known}")
    return [made for part in parts if (made := ordered(part, named[part.name]).loops)]


def _scheduled(recipe: Recipe) -> bool:
    return any(isinstance(transform, Schedule) for nest in recipe.nests for transform in nest.transforms)


def _group(
    rows: Sequence[StoredMeasurement], source: Path, machine: Machine, rankers: Sequence[str], left_out: Counter[str]
) -> Group | None:
    """The group of one problem; None where nothing is of use. `left_out` counts the rows that are not, by reason."""
    usable = [r for r in rows if r.verified and r.samples and r.variant != "original"]
    try:
        recipes = {r.variant: Recipe.from_json(r.recipe) for r in usable}
    except InputError as error:
        raise StoreError(f"the measurements of {rows[0].problem} cannot be read: {error.reason}") from error
    left_out[SCHEDULED] += sum(map(_scheduled, recipes.values()))
    usable = [r for r in usable if not _scheduled(recipes[r.variant])]
    if len(usable) < _FEWEST:
        left_out[FEW] += len(usable)
        return None
    first = usable[0]
    try:
        program = canonical(pipeline.only_scop(pipeline.load(source, Options(defines=dict(first.sizes)))))
        scop = program.scop
        parts = nests(scop, program.dependences)
        made = [structures_of(parts, recipes[row.variant]) for row in usable]
    except PolyDLError as error:
        raise StoreError(
            f"the measurements of {first.problem} cannot be read by this version of polydl: {error.reason}"
        ) from error
    best = min(min(r.samples) for r in usable)
    trusted = [not _doubtful(r, one, best) for r, one in zip(usable, made, strict=True)]
    usable = [r for r, sure in zip(usable, trusted, strict=True) if sure]
    made = [one for one, sure in zip(made, trusted, strict=True) if sure]
    heavy = next((n for n, part in enumerate(parts) if part.contraction is not None), None)
    matrix: FeatureMatrix | None = None
    if heavy is not None:
        matrix = features(scop, parts[heavy], [m[heavy] for m in made], machine, first.threads)
    if heavy is None or matrix is None:
        left_out[PLAIN] += len(usable)
        return None
    operations = 2.0
    for count in parts[heavy].counts.values():
        operations *= count.extent or 1
    original = next((r.median for r in rows if r.variant == "original" and r.median is not None), None)
    return Group(
        first.workload,
        first.problem,
        first.machine,
        scop.function,
        json.dumps(dict(first.sizes), sort_keys=True),
        operations,
        tuple(r.variant for r in usable),
        tuple(recipes[r.variant] for r in usable),
        tuple(r.origin for r in usable),
        matrix.values,
        matrix.traffic_seconds,
        matrix.terms,
        np.array([[r.features.get(f"cost.{name}", 0.0) for name in INPUTS] for r in usable]),
        {name: _scores(scop, parts, made, named(name), machine, first.threads) for name in rankers},
        *_times(usable),
        original,
    )


def _scores(
    scop: Scop,
    parts: Sequence[Nest],
    made: Sequence[Sequence[NestLoops]],
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


def _doubtful(row: StoredMeasurement, structures: Sequence[NestLoops], best: float) -> bool:
    """Whether a single run may have been slow for a stall's sake: it is not far beyond the best in absolute terms, and
    there is a microkernel, without which nobody would doubt it."""
    plain = all(s.kernel is None for s in structures)
    return _SLOW in row.marks and not plain and min(row.samples) < best + STALL


def _times(rows: Sequence[StoredMeasurement]) -> tuple[FloatArray, FloatArray]:
    """(V,) natural logarithms of the undisturbed seconds, and their standard errors. The n-th samples of all rows are
    of one round, except of those that only ran once."""
    once = [_SLOW in row.marks for row in rows]
    found = undisturbed(
        [{} if single else dict(enumerate(row.samples)) for row, single in zip(rows, once, strict=True)]
    )
    seconds = np.where(once, [min(row.samples) for row in rows], found.seconds)
    error = np.where(np.isnan(found.error), _FEW_NOISE, np.maximum(found.error, _LEAST_NOISE))
    return np.log(seconds), np.where(once, _SLOW_NOISE, error)


__all__ = [
    "FEATURES_VERSION",
    "DataSet",
    "Group",
    "by_problems",
    "digest",
    "groups_of",
    "load_data",
    "read_rows",
    "structures_of",
]
