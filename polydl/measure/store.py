"""The store of measurements: one SQLite file in WAL mode, one row per measurement, a column per field of the record.

Rows are added in transactions, which are on the disk when `Store.add` returns (synchronous=FULL): when a process or the
machine is killed, no committed row is lost and none is there in part. Several processes may use one file at once:
readers never wait, writers take turns.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from polydl.base.errors import StoreError


class StoredMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """The measurement of one variant of a kernel at some sizes. Its fields, by name, are the columns of the store and
    of exported Parquet files."""

    kernel: str
    """SHA-256 of the C file's text; see `Store.kernel`."""
    workload: str
    """The network or application that the sizes come from; training data are split by it."""
    problem: str
    """Name of the layer or size."""
    sizes: Mapping[str, int]
    """Macros of the C file."""
    dtype: str
    """C name of the element type that it computes with; empty for several."""
    threads: int
    """OpenMP threads of the timed runs."""
    variant: str
    """Id of the recipe, or `original`."""
    recipe: str
    """JSON form of the recipe; empty for the original code."""
    origin: str
    """Why it was measured, joined with commas: names of rankers that have it among their first ones, `default` (the
    loops as written around a microkernel), `stratified`, `random`; or `original`."""
    machine: str
    """Fingerprint; see `Store.machine`."""
    compiler: str
    """First line that the compiler prints for --version."""
    flags: tuple[str, ...]
    """Flags of the compiler."""
    status: str
    """`verified`, or how the variant failed (polydl.measure.Status)."""
    message: str = ""
    """Why it failed, for people."""
    samples: tuple[float, ...] = ()
    """Seconds of one run, in the order taken, outliers included."""
    outliers: tuple[int, ...] = ()
    """Indices of the samples farther from the median than five scaled median absolute deviations."""
    median: float | None = None
    """Median of all samples, seconds; None without samples."""
    interval: float | None = None
    """Half the width of the median's 95 % confidence interval, over the median; None when the samples are too few."""
    marks: tuple[str, ...] = ()
    """`slow`: far slower than the best, so timed by its verification run only; `capped`: the interval was still too
    wide when the samples ran out."""
    features: Mapping[str, float] = {}
    """The features of the analytic rankers by name, `RANKER.FEATURE`; the last word of a name is its unit."""
    scores: Mapping[str, float] = {}
    """The score by each analytic ranker."""
    seed: int = 0
    """Of the input data."""
    created: str = ""
    """UTC, ISO 8601."""

    @property
    def verified(self) -> bool:
        return self.status == "verified"


FIELDS: Mapping[str, Any] = {f.name: f.type for f in msgspec.structs.fields(StoredMeasurement)}
"""Type of each field by its name, in the order of the columns."""

_PLAIN: Mapping[Any, str] = {str: "TEXT NOT NULL", int: "INTEGER NOT NULL", float | None: "REAL"}
"""SQLite's columns for fields of these types; all others are stored as JSON text."""
_REFERENCES = {"kernel": " REFERENCES kernels", "machine": " REFERENCES machines"}
_SAME = "kernel, sizes, threads, variant, machine, compiler, flags"
"""The columns that identify a measurement."""

_MIGRATIONS: tuple[str, ...] = ()
"""The script at index i converts schema i + 1 to schema i + 2."""
SCHEMA = len(_MIGRATIONS) + 1
"""Version of the tables, kept in SQLite's user_version."""
_APPLICATION = 0x706C646C
"""SQLite's application_id, `pldl`, which distinguishes a store from other databases."""
_LONGEST_WAIT_MS = 60_000
"""Milliseconds to wait for another process that writes."""


def _tables() -> str:
    """The statements that make an empty file a store of today's schema."""
    columns = [
        f"{name} {_PLAIN.get(kind, 'TEXT NOT NULL')}{_REFERENCES.get(name, '')}" for name, kind in FIELDS.items()
    ]
    return f"""
        CREATE TABLE kernels (hash TEXT PRIMARY KEY, function TEXT NOT NULL, source TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE machines (fingerprint TEXT PRIMARY KEY, description TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE measurements (number INTEGER PRIMARY KEY, {", ".join(columns)}, UNIQUE ({_SAME}));
        CREATE INDEX measurements_by_problem ON measurements (kernel, sizes, threads);
    """


def _to_row(measured: StoredMeasurement) -> list[Any]:
    values = msgspec.structs.asdict(measured)
    return [v if FIELDS[name] in _PLAIN else json.dumps(v, sort_keys=True) for name, v in values.items()]


def _from_row(row: sqlite3.Row) -> StoredMeasurement:
    """The record of a row. Raises TypeError for a value of another type than its field has: SQLite stores any type."""
    values: dict[str, Any] = {}
    for name, kind in FIELDS.items():
        value = row[name] if kind in _PLAIN else json.loads(row[name])
        try:
            values[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise TypeError(f"{name} is {value!r}") from error
    return StoredMeasurement(**values)


class Store:
    """A store of measurements. Use it in a `with` statement, or close it.

    Opening it and every method raise StoreError, with what to do about it, for a file that is damaged, no store or of a
    newer schema, for a place that cannot be written, a full disk, or a process that holds the lock for too long.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        """Open a store. Without `read_only` it is created when it does not exist, and an older schema is converted."""
        self.path = Path(path)
        self.read_only = read_only
        if read_only and not self.path.is_file():
            raise StoreError(f"there is no store {self.path}", hint="polydl collect makes one")
        if not read_only and not self.path.parent.is_dir():
            raise StoreError(f"there is no folder {self.path.parent} for the store", hint="make it, or name another")
        with self._explained():
            self._connection = _connect(self.path, read_only=read_only)
        try:
            with self._explained():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        # This reads the header, and fails for a file that is no database.
        version, tables = _version(connection), _count_of_tables(connection)
        if tables and connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise StoreError(f"{self.path} is another program's database", hint="name another file")
        if version < 0:
            raise _damaged(self.path, f"schema {version}")
        if version > SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer polydl (schema {version}, this one knows {SCHEMA})",
                hint="update polydl, or name another file",
            )
        if self.read_only:
            if version < SCHEMA:
                hint = "open it once for writing (polydl collect does), or give the folder's owner's rights"
                raise StoreError(f"{self.path} has the older schema {version} and may not be changed here", hint=hint)
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if version < SCHEMA:
            with self._transaction():
                # Another process may have done it while this one waited for the lock.
                version = _version(connection)
                for script in _MIGRATIONS[version - 1 :] if version else (_tables(),):
                    for statement in _statements(script):
                        connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into StoreError with a way out."""
        try:
            yield
        except sqlite3.Error as error:
            raise _explain(error, self.path) from error
        except UnicodeDecodeError as error:  # bytes that are no text, in the tables or in SQLite's messages
            raise _damaged(self.path, str(error)) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was added is on the disk already."""
        self._connection.close()

    def add(self, rows: Iterable[StoredMeasurement]) -> int:
        """Add measurements, all or none; they are on the disk when it returns. Returns the number of new ones: a
        variant that was measured under the same conditions before keeps its first measurement."""
        ready = [_to_row(row) for row in rows]
        names, places = ", ".join(FIELDS), ", ".join("?" for _ in FIELDS)
        with self._explained(), self._transaction():
            before = self._connection.total_changes
            self._connection.executemany(
                f"INSERT INTO measurements ({names}) VALUES ({places}) ON CONFLICT ({_SAME}) DO NOTHING",
                ready,
            )
            added = self._connection.total_changes - before
        return added

    def add_kernel(self, hash_: str, function: str, source: str) -> None:
        """Add the C file of a kernel; rows refer to it by its hash."""
        with self._explained(), self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO kernels VALUES (?, ?, ?)", (hash_, function, source))

    def add_machine(self, fingerprint: str, description: str) -> None:
        """Add the description of a machine (TOML); rows refer to it by its fingerprint."""
        with self._explained(), self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO machines VALUES (?, ?)", (fingerprint, description))

    def kernel(self, hash_: str) -> tuple[str, str]:
        """(function, C text) of a kernel. Raises KeyError."""
        return self._look_up("SELECT function, source FROM kernels WHERE hash = ?", hash_)

    def machine(self, fingerprint: str) -> str:
        """A machine's description as TOML. Raises KeyError."""
        return str(self._look_up("SELECT description, '' FROM machines WHERE fingerprint = ?", fingerprint)[0])

    def _look_up(self, query: str, key: str) -> tuple[str, str]:
        with self._explained():
            row = self._connection.execute(query, (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return str(row[0]), str(row[1])

    def rows(self, where: str = "", values: Sequence[object] = ()) -> Iterator[StoredMeasurement]:
        """The measurements that an SQL condition on the columns selects, in the order in which they were added."""
        condition = f"WHERE {where}" if where else ""
        with self._explained():
            for row in self._connection.execute(f"SELECT * FROM measurements {condition} ORDER BY number", values):
                yield self._read(row)

    def _read(self, row: sqlite3.Row) -> StoredMeasurement:
        try:
            return _from_row(row)
        except (json.JSONDecodeError, TypeError) as error:
            raise StoreError(
                f"row {row['number']} of {self.path} is damaged: {error}", hint="restore the file from a copy"
            ) from error

    def measured(self, kernel: str, sizes: Mapping[str, int], threads: int, machine: str) -> set[str]:
        """Ids of the variants measured for these sizes on this machine, with any compiler."""
        with self._explained():
            found = self._connection.execute(
                "SELECT variant FROM measurements WHERE kernel = ? AND sizes = ? AND threads = ? AND machine = ?",
                (kernel, json.dumps(dict(sizes), sort_keys=True), threads, machine),
            )
            return {str(row[0]) for row in found}

    def __len__(self) -> int:
        with self._explained():
            return int(self._connection.execute("SELECT COUNT(*) FROM measurements").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one, since `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    address = path.absolute().as_uri() + ("?mode=ro" if read_only else "")
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_LONGEST_WAIT_MS / 1000)
    connection.execute(f"PRAGMA busy_timeout = {_LONGEST_WAIT_MS}")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _count_of_tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0])


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} is damaged or is no SQLite file: {why}",
        hint="it was left as it is: name another file, or save what can be read with sqlite3 FILE .recover",
    )


def _explain(error: sqlite3.Error, path: Path) -> StoreError:
    """The error for people. SQLite's result codes: https://www.sqlite.org/rescode.html."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    text = str(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, text)
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"no room is left for {path}: {text}",
            hint="make room and run the same command again: what was stored before is kept and not measured again",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(
            f"{path} cannot be opened for this: {text}", hint="name a file in a folder that you can write"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        seconds = _LONGEST_WAIT_MS // 1000
        return StoreError(
            f"another process has been writing to {path} for {seconds} s", hint="wait for it, or end it, and try again"
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"{path} cannot be read or written: {text}", hint="is the disk full or failing?")
    return StoreError(f"{path}: {text}")
