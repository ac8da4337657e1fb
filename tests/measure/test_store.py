"""The store of measurements: what is added stays, whatever happens; what cannot be used is said."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from polydl.base.errors import StoreError
from polydl.measure import store as module
from polydl.measure.store import FIELDS, SCHEMA, Store, StoredMeasurement

KERNEL, MACHINE = "k" * 64, "0123456789ab"


def row(variant: str, **changes: object) -> StoredMeasurement:
    values: dict[str, object] = {
        "kernel": KERNEL, "workload": "net", "problem": "layer", "sizes": {"M": 3, "N": 4}, "dtype": "float",
        "threads": 2, "variant": variant, "recipe": "[]", "origin": "random", "machine": MACHINE,
        "compiler": "gcc 12", "flags": ("-O3",), "status": "verified", "samples": (0.5, 0.25, 0.75), "outliers": (2,),
        "median": 0.5, "interval": None, "marks": ("capped",), "features": {"cost.x": 1.5}, "scores": {"cost": 2.0},
        "seed": 7, "created": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    return StoredMeasurement(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        opened.add_kernel(KERNEL, "f", "void f(void) {}")
        opened.add_machine(MACHINE, "name = 'x'")
        yield opened


def test_rows_come_back_as_they_were_added(store: Store) -> None:
    rows = [row("a"), row("b", status="wrong", message="says why", samples=(), outliers=(), median=None, marks=())]
    assert store.add(rows) == 2
    assert list(store.rows()) == rows
    assert list(store.rows("status = ?", ["wrong"])) == rows[1:]
    assert len(store) == 2
    assert store.kernel(KERNEL) == ("f", "void f(void) {}")
    assert store.machine(MACHINE) == "name = 'x'"
    with pytest.raises(KeyError):
        store.kernel("another")


def test_a_column_for_each_field(store: Store, path: Path) -> None:
    """A field of the record is a column of the store, under its name and in its order: nothing else lists them."""
    with sqlite3.connect(path) as connection:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(measurements)")]
    connection.close()
    assert columns == ["number", *FIELDS]


def test_a_store_of_the_first_version_is_read(path: Path) -> None:
    """The tables as they were when their statements were written by hand."""
    with sqlite3.connect(path) as connection:
        connection.executescript(FIRST)
    connection.close()
    with Store(path) as store:
        assert list(store.rows()) == [row("a")]
        assert store.add([row("a"), row("b")]) == 1


FIRST = f"""
CREATE TABLE kernels (hash TEXT PRIMARY KEY, function TEXT NOT NULL, source TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE machines (fingerprint TEXT PRIMARY KEY, description TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE measurements (
    number INTEGER PRIMARY KEY, kernel TEXT NOT NULL REFERENCES kernels, workload TEXT NOT NULL, problem TEXT NOT NULL,
    sizes TEXT NOT NULL, dtype TEXT NOT NULL, threads INTEGER NOT NULL, variant TEXT NOT NULL, recipe TEXT NOT NULL,
    origin TEXT NOT NULL, machine TEXT NOT NULL REFERENCES machines, compiler TEXT NOT NULL, flags TEXT NOT NULL,
    status TEXT NOT NULL, message TEXT NOT NULL, samples TEXT NOT NULL, outliers TEXT NOT NULL, median REAL,
    interval REAL, marks TEXT NOT NULL, features TEXT NOT NULL, scores TEXT NOT NULL, seed INTEGER NOT NULL,
    created TEXT NOT NULL, UNIQUE (kernel, sizes, threads, variant, machine, compiler, flags)
);
CREATE INDEX measurements_by_problem ON measurements (kernel, sizes, threads);
INSERT INTO kernels VALUES ('{KERNEL}', 'f', 'void f(void) {{}}');
INSERT INTO machines VALUES ('{MACHINE}', 'name');
INSERT INTO measurements VALUES (
    1, '{KERNEL}', 'net', 'layer', '{{"M": 3, "N": 4}}', 'float', 2, 'a', '[]', 'random', '{MACHINE}', 'gcc 12',
    '["-O3"]', 'verified', '', '[0.5, 0.25, 0.75]', '[2]', 0.5, NULL, '["capped"]', '{{"cost.x": 1.5}}',
    '{{"cost": 2.0}}', 7, '2026-01-01T00:00:00+00:00'
);
PRAGMA application_id = {0x706C646C};
PRAGMA user_version = 1;
"""


def test_a_variant_measured_again_keeps_its_first_measurement(store: Store) -> None:
    assert store.add([row("a")]) == 1
    assert store.add([row("a", median=9.0), row("b")]) == 1
    assert {r.variant: r.median for r in store.rows()} == {"a": 0.5, "b": 0.5}
    assert store.add([row("a", threads=4), row("a", flags=("-O2",)), row("a", sizes={"M": 4, "N": 3})]) == 3


def test_measured_asks_for_one_problem(store: Store) -> None:
    store.add([row("a"), row("b"), row("c", threads=4), row("d", sizes={"M": 3, "N": 5})])
    assert store.measured(KERNEL, {"N": 4, "M": 3}, 2, MACHINE) == {"a", "b"}
    assert store.measured(KERNEL, {"N": 4, "M": 3}, 2, "another") == set()


def test_all_rows_of_an_addition_or_none(store: Store) -> None:
    with pytest.raises(StoreError):
        store.add([row("a"), row("b", machine="nobody knows")])
    assert len(store) == 0
    store.add([row("a")])
    assert len(store) == 1


def test_opened_again_and_read_only(store: Store, path: Path) -> None:
    store.add([row("a")])
    with Store(path) as again, Store(path, read_only=True) as reader:
        assert list(again.rows()) == list(reader.rows()) == [row("a")]
        with pytest.raises(StoreError, match="cannot be opened for this"):
            reader.add([row("b")])


KILLED = """
import sys
from polydl.measure.store import Store
sys.path.insert(0, sys.argv[2])
from test_store import row
with Store(sys.argv[1]) as store:
    for number in range(100000):
        store.add([row(f"{number} {part}") for part in range(5)])
        print(number, flush=True)
"""


def test_killed_at_any_moment_no_committed_row_is_lost(store: Store, path: Path) -> None:
    committed = -1
    for attempt in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, path, Path(__file__).parent], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        told = process.stdout.readline()
        time.sleep(0.03 * attempt)
        process.kill()
        told += process.stdout.read()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        complete = [line for line in told.split("\n")[:-1] if line]
        committed = max(committed, int(complete[-1]))
        variants = {r.variant for r in store.rows()}
        assert {f"{n} {part}" for n in range(committed + 1) for part in range(5)} <= variants
        assert len(variants) % 5 == 0
    with Store(path) as again:
        assert again.add([row("after")]) == 1
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


TWO = """
import sys
from polydl.measure.store import Store
sys.path.insert(0, sys.argv[2])
from test_store import row
with Store(sys.argv[1]) as store:
    for number in range(60):
        store.add([row(f"{sys.argv[3]} {number}"), row(f"both {number}")])
"""


def test_two_processes_at_once(store: Store, path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", TWO, path, Path(__file__).parent, name]) for name in ("one", "two")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    variants = {r.variant for r in store.rows()}
    assert variants == {f"{name} {n}" for name in ("one", "two", "both") for n in range(60)}


def test_a_process_that_does_not_let_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT_MS", 50)
    with Store(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process"):
            store.add_machine("m", "x")
        other.execute("ROLLBACK")
        store.add_machine("m", "x")
        other.close()


@pytest.mark.parametrize("damage", ["text", "middle", "short"])
def test_a_damaged_file_is_left_as_it_is(path: Path, damage: str) -> None:
    with Store(path) as store:
        store.add_kernel(KERNEL, "f", "x" * 100_000)
        store.add_machine(MACHINE, "y")
        store.add([row(str(n)) for n in range(500)])
    content = path.read_bytes()
    if damage == "text":
        content = b"this is no database, only some text that somebody wrote\n" * 40
    elif damage == "middle":
        content = content[:4096] + os.urandom(len(content) - 8192) + content[-4096:]
    else:
        content = content[: len(content) // 2]
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged") as failure, Store(path) as store:
        list(store.rows())
    assert failure.value.hint
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with Store(path) as store:
        assert len(store) == 0


def test_a_row_of_nonsense_is_named(store: Store, path: Path) -> None:
    store.add([row("a")])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE measurements SET samples = '[1, 2'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"row 1 of .* is damaged"):
        list(store.rows())


def test_another_programs_database_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program's"):
        Store(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_and_an_older_one_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    with pytest.raises(StoreError, match="newer polydl"):
        Store(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.close()
    with Store(path) as store:
        store.add_kernel(KERNEL, "f", "x")
        store.add_machine(MACHINE, "y")
        store.add([row("a")])
    # As a later version of polydl would see today's file.
    step = "CREATE TABLE later (x);\nALTER TABLE machines ADD COLUMN note TEXT NOT NULL DEFAULT '';\n"
    monkeypatch.setattr(module, "_MIGRATIONS", (*module._MIGRATIONS, step))
    monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)
    with pytest.raises(StoreError, match="older schema"):
        Store(path, read_only=True)
    with Store(path) as store:
        assert list(store.rows()) == [row("a")]
    assert sqlite3.connect(path).execute("SELECT note FROM machines").fetchall() == [("",)]


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path) as store:
        store.add_machine(MACHINE, "y")
    monkeypatch.setattr(
        module, "_MIGRATIONS", (*module._MIGRATIONS, "CREATE TABLE later (x);\nCREATE TABLE machines (x);\n")
    )
    monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)
    with pytest.raises(StoreError):
        Store(path)
    monkeypatch.undo()
    with Store(path) as store:
        assert store.machine(MACHINE) == "y"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no folder"):
        Store(tmp_path / "nowhere" / "store.sqlite")
    with pytest.raises(StoreError, match="there is no store"):
        Store(tmp_path / "store.sqlite", read_only=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path)
    with pytest.raises(StoreError):
        Store("/proc/store.sqlite")


def test_a_full_disk_loses_nothing(store: Store) -> None:
    store.add([row("a")])
    # SQLite's own limit gives the same result code as a full disk.
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreError, match="no room is left") as failure:
        store.add([row(str(n), message="x" * 3000) for n in range(20)])
    assert "make room" in str(failure.value)
    assert [r.variant for r in store.rows()] == ["a"]
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert store.add([row("b")]) == 1


def test_a_full_file_system_loses_nothing(tmp_path: Path) -> None:
    """A file of limited size stands for the disk: writing more fails with the system's error."""
    script = textwrap.dedent("""
        import resource, signal, sys
        from polydl.base.errors import StoreError
        from polydl.measure.store import Store
        sys.path.insert(0, sys.argv[2])
        from test_store import KERNEL, MACHINE, row
        with Store(sys.argv[1]) as store:
            store.add_kernel(KERNEL, "f", "x")
            store.add_machine(MACHINE, "y")
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
            done = 0
            try:
                for number in range(1000):
                    store.add([row(f"{number}", message="x" * 2000)])
                    done += 1
            except StoreError as error:
                print(done, error.hint)
                sys.exit(3)
    """)
    target = tmp_path / "store.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", script, target, Path(__file__).parent], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3, done.stderr
    count = int(done.stdout.split()[0])
    assert count > 10
    with Store(target) as store:
        assert {r.variant for r in store.rows()} == {str(n) for n in range(count)}


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE measurements SET variant = CAST(x'c328' AS TEXT)", "decode"),
        ("UPDATE measurements SET median = 'quick'", "median is 'quick'"),
        ("UPDATE measurements SET samples = '{}'", "samples is {}"),
        ("UPDATE measurements SET sizes = '[1]'", r"sizes is \[1\]"),
        ("UPDATE measurements SET threads = 'two'", "threads is 'two'"),
    ],
)
def test_values_that_do_not_belong_are_refused(store: Store, path: Path, statement: str, reason: str) -> None:
    store.add([row("a")])
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(StoreError, match=reason):
        list(store.rows())


def test_a_schema_that_never_was(store: Store, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = -7")
    connection.close()
    with pytest.raises(StoreError, match="schema -7"):
        Store(path)
