"""Times of the user's own runs on this machine, kept in a store, and what they say of later estimates.

The store is one file in the user's data folder, for any number of processes at once (`measure.store`). What other
machines, compilers or versions of the machine's calibration have measured in it counts for nothing here.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import platformdirs

from polydl.base.errors import InputError, StoreError
from polydl.measure import Report
from polydl.measure.compiler import compiler_version
from polydl.measure.measurement import Measurement, Toolchain
from polydl.measure.store import Store, StoredMeasurement
from polydl.model.scop import Scop
from polydl.rank.shape_correction import Correction, Timings, fitted
from polydl.schedule.recipe import Recipe
from polydl.search.variant import Variant
from polydl.target import Machine
from polydl.target.machine_files import dumps

_PREFIX, _SUFFIX = "estimate.", "_seconds"
_NEWEST = 4000
"""Rows, the newest, that a correction is made from."""


def place() -> Path:
    """The store's file, which may not be there."""
    return Path(platformdirs.user_data_dir("polydl")) / "own-times.sqlite"


def forget() -> int:
    """Delete the store. Returns how many measurements it had; raises StoreError where it cannot be deleted."""
    path = place()
    if not path.is_file():
        return 0
    try:
        with Store(path, read_only=True) as store:
            count = len(store)
    except StoreError:
        count = 0  # damaged: what it had nobody knows, and it is deleted as well
    try:
        for one in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            one.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be deleted: {error}") from error
    return count


def keep(
    scop: Scop, report: Report, variants: Sequence[Variant], machine: Machine, threads: int, toolchain: Toolchain
) -> int:
    """Add the times of a run's variants, where they are to be trusted. Returns how many rows are new. Where the store
    cannot be used there is a warning, and nothing else."""
    timed = {m.id: m for m in report.measurements if m.verified and m.samples and not m.estimated}
    if report.untrusted or report.disturbed or len(timed) < 2:
        return 0
    text = scop.source.text
    kernel = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    compiler, flags = compiler_version(toolchain), (*toolchain.cflags, *toolchain.ldflags)
    rows = [
        StoredMeasurement(
            kernel=kernel, workload="own", problem=scop.function, sizes=dict(scop.sizes),
            dtype=str(scop.element or ""), threads=threads, variant=variant.id, recipe=variant.recipe.to_json(),
            origin="own", machine=machine.fingerprint, compiler=compiler, flags=flags,
            status=timed[variant.id].status.value, samples=timed[variant.id].samples,
            median=_seconds(timed[variant.id]),
            features={f"{_PREFIX}{name}{_SUFFIX}": value for name, value in variant.estimate.seconds.items()},
            scores={"estimate": variant.score}, created=now,
        )
        for variant in variants
        if variant.id in timed and math.isfinite(variant.score)
    ]  # fmt: skip
    path = place()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with Store(path) as store:
            store.add_kernel(kernel, scop.function, text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
            store.add_machine(machine.fingerprint, dumps(machine))
            return store.add(rows)
    except (OSError, StoreError) as error:
        why = error.reason if isinstance(error, StoreError) else error
        warnings.warn(f"the times of this run are not kept for later ones (--no-learn): {why}", stacklevel=2)
        return 0


def _seconds(measured: Measurement) -> float:
    return measured.undisturbed if math.isfinite(measured.undisturbed) else measured.median


def learned(machine: Machine, threads: int | None = None) -> Correction | None:
    """The correction for a machine, from the times of its own that are kept; None: there are none. `threads`: only of
    runs with so many. A store that cannot be read is told of in a warning, and counts as empty."""
    path = place()
    if not path.is_file():
        return None
    where, values = "machine = ? AND workload = 'own'", [machine.fingerprint]
    try:
        with Store(path, read_only=True) as store:
            rows = [row for row in store.rows(where, values) if threads is None or row.threads == threads]
        return fitted(_problems(rows[-_NEWEST:]))
    except (StoreError, InputError) as error:
        warnings.warn(f"{path} is not used: {error.reason}; polydl machine --forget deletes it", stacklevel=2)
        return None


def _problems(rows: Sequence[StoredMeasurement]) -> list[Timings]:
    """The timings of each problem and run; raises InputError for a recipe that this version does not read."""
    together: dict[object, list[StoredMeasurement]] = {}
    for row in rows:
        if row.verified and row.median and row.scores.get("estimate", 0.0) > 0:
            key = (
                row.kernel,
                json.dumps(dict(row.sizes), sort_keys=True),
                row.threads,
                row.compiler,
                row.flags,
                row.created,
            )
            together.setdefault(key, []).append(row)
    return [_timings(some) for some in together.values()]


def _timings(rows: Sequence[StoredMeasurement]) -> Timings:
    names = sorted({name for row in rows for name in row.features if name.startswith(_PREFIX)})
    return Timings(
        [Recipe.from_json(row.recipe) for row in rows],
        np.log([row.scores["estimate"] for row in rows]),
        {n[len(_PREFIX) : -len(_SUFFIX)]: np.array([row.features.get(n, 0.0) for row in rows]) for n in names},
        np.log([row.median for row in rows if row.median is not None]),
    )
