"""A store as one Parquet file: what is shipped as training data. Needs pyarrow (the extra `train`)."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from polydl.base.errors import PolyDLError, StoreError
from polydl.measure.store import FIELDS, Store, StoredMeasurement

_FORMAT = "polydl-measurements"
_VERSION = 1
_DIGITS = 5
"""Significant digits stored of samples, features and scores: more than the timer and the models have."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What a Parquet file holds."""

    rows: list[StoredMeasurement]
    kernels: dict[str, tuple[str, str]]
    """(function, C text) by hash."""
    machines: dict[str, str]
    """TOML by fingerprint."""


def together(several: Sequence[Exported]) -> Exported:
    """The rows of several files as one."""
    return Exported(
        [row for one in several for row in one.rows],
        {key: value for one in several for key, value in one.kernels.items()},
        {key: value for one in several for key, value in one.machines.items()},
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _compact(row: StoredMeasurement) -> StoredMeasurement:
    return msgspec.structs.replace(
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
    columns = {name: [_plain(getattr(row, name)) for row in rows] for name in FIELDS}
    # What has keys that differ from row to row is kept as JSON text.
    types = {
        str: pa.string(), int: pa.int64(), float | None: pa.float64(), tuple[str, ...]: pa.list_(pa.string()),
        tuple[int, ...]: pa.list_(pa.int64()), tuple[float, ...]: pa.list_(pa.float64()),
    }  # fmt: skip
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in FIELDS.items()])
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
    except (KeyError, TypeError, ValueError) as error:  # msgspec's errors are ValueErrors
        raise StoreError(f"{path} is damaged: {error}") from error
    return Exported(rows, kernels, machines)


def _plain(value: Any) -> Any:
    """A field's value as a column of Parquet holds it."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value), sort_keys=True)
    return list(value) if isinstance(value, tuple) else value


def _row(values: Mapping[str, Any]) -> StoredMeasurement:
    """The record of a row; columns that this version does not know are left out. Raises ValidationError."""
    nested = {name for name, kind in FIELDS.items() if typing.get_origin(kind) is Mapping}
    known = {name: json.loads(v) if name in nested else v for name, v in values.items() if name in FIELDS}
    return msgspec.convert(known, StoredMeasurement)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq
    except ImportError as error:
        raise PolyDLError(
            "Parquet files need pyarrow, which is not installed", hint="pip install 'polydl[train]'"
        ) from error
    return pa, pq
