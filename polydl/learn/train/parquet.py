"""A store as one Parquet file: what is shipped as training data. Needs pyarrow (the extra `train`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from polydl.base.errors import PolyDLError, StoreError
from polydl.measure.store import Measured, Store

_FORMAT = "polydl-measurements"
_VERSION = 1
_NESTED = ("sizes", "features", "scores")
"""Kept as JSON text: their keys differ from row to row."""
_DIGITS = 5
"""Significant digits kept of samples, features and scores: more than the timer and the models have."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What a Parquet file holds."""

    rows: list[Measured]
    kernels: dict[str, tuple[str, str]]
    """(function, C text) by hash."""
    machines: dict[str, str]
    """TOML by fingerprint."""


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _compact(row: Measured) -> Measured:
    return replace(
        row,
        samples=tuple(_rounded(s) for s in row.samples),
        median=None if row.median is None else _rounded(row.median),
        interval=None if row.interval is None else _rounded(row.interval),
        features={k: _rounded(v) for k, v in row.features.items()},
        scores={k: _rounded(v) for k, v in row.scores.items()},
    )


def write(store: Store, path: Path) -> int:
    """Export a store, the numbers to five digits; returns the number of rows. Raises PolyDLError without pyarrow."""
    pa, pq = _pyarrow()
    rows = [_compact(row) for row in store.rows()]
    kernels = {name: store.kernel(name) for name in sorted({row.kernel for row in rows})}
    machines = {name: store.machine(name) for name in sorted({row.machine for row in rows})}
    columns: dict[str, list[Any]] = {}
    for f in fields(Measured):
        values = [getattr(row, f.name) for row in rows]
        if f.name in _NESTED:
            values = [json.dumps(dict(value), sort_keys=True) for value in values]
        elif values and isinstance(values[0], tuple):
            values = [list(value) for value in values]
        columns[f.name] = values
    schema = pa.schema([(f.name, _types(pa)[f.name]) for f in fields(Measured)])
    document = {"format": _FORMAT, "version": _VERSION, "kernels": kernels, "machines": machines}
    table = pa.table(columns, schema=schema).replace_schema_metadata({_FORMAT: json.dumps(document)})
    unfinished = path.with_name(path.name + ".new")
    pq.write_table(table, unfinished, compression="zstd", compression_level=19)
    unfinished.replace(path)
    return len(rows)


def read(path: Path) -> Exported:
    """Read an export. Raises StoreError for a file that is none."""
    pa, pq = _pyarrow()
    try:
        table = pq.read_table(path)
        document = json.loads((table.schema.metadata or {}).get(_FORMAT.encode(), b"null"))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreError(f"{path} cannot be read as measurements: {error}") from error
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise StoreError(f"{path} holds no measurements of this version of polydl", hint="export them again")
    try:
        rows = [_row(values) for values in table.to_pylist()]
        kernels = {name: (str(value[0]), str(value[1])) for name, value in document["kernels"].items()}
        machines = {name: str(text) for name, text in document["machines"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    return Exported(rows, kernels, machines)


def _row(values: dict[str, Any]) -> Measured:
    ready: dict[str, Any] = {
        name: json.loads(value) if name in _NESTED else tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
    }
    return Measured(**ready)


def _types(pa: Any) -> dict[str, Any]:
    special = {
        "threads": pa.int32(),
        "seed": pa.int64(),
        "median": pa.float64(),
        "interval": pa.float64(),
        "samples": pa.list_(pa.float64()),
        "outliers": pa.list_(pa.int32()),
        "flags": pa.list_(pa.string()),
        "marks": pa.list_(pa.string()),
    }
    return {f.name: special.get(f.name, pa.string()) for f in fields(Measured)}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq
    except ImportError as error:
        raise PolyDLError(
            "Parquet files need pyarrow, which is not installed", hint="pip install 'polydl[train]'"
        ) from error
    return pa, pq
