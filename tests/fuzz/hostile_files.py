"""Files other than C with hostile contents: rankers, stores, machines, lists of sizes and of loop strings.

Each is a good file with some bytes changed, cut off or put in, determined by a seed and a number. What reads it may
take it or refuse it with one of polydl's errors.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polydl import target as machine
from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.inspect import loop_string_file
from polydl.learn.collect import read_problems
from polydl.measure.store import Store, StoredMeasurement
from polydl.rank.features import FEATURES_VERSION, names
from polydl.rank.weights import load_weights
from polydl.search import result_cache

_SIZES = "workload,M,N,K\nmine,64,96,48\nmine,100,70,33\n"
_LOOPS = "aBc@schedule(dynamic,1) c=50;mk=14x32:k\nA{R:2}cB{C:2} c=50\nAB@hilbert\n"


def _store(path: Path) -> None:
    with Store(path) as store:
        store.add_kernel("k", "f", "void f(void) {}")
        store.add_machine("m", "")
        store.add(_row(f"v{n}", {"N": n}) for n in range(50))


def _row(variant: str, sizes: dict[str, int]) -> StoredMeasurement:
    return StoredMeasurement(
        kernel="k", workload="w", problem="p", sizes=sizes, dtype="float", threads=1, variant=variant, recipe="",
        origin="", machine="m", compiler="cc", flags=(), status="verified", samples=(1e-3,),
    )  # fmt: skip


def _read_store(path: Path) -> None:
    with Store(path, read_only=True) as store:
        len(store)
        list(store.rows())


def _write_store(path: Path) -> None:
    with Store(path) as store:
        store.add([_row("new", {"N": 1})])


def _read_cached(path: Path) -> None:
    """As an entry that is whole as a file, whatever is inside."""
    result_cache.CACHE.write(path.stem, path.read_bytes())
    result_cache.load(path.stem)


def _read_damaged(path: Path) -> None:
    shutil.copy(path, result_cache.CACHE.path(path.stem))
    result_cache.load(path.stem)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file."""

    make: Callable[[Path], object]
    """Writes a good one."""
    read: tuple[Callable[[Path], object], ...]


KINDS = {
    "ranker.safetensors": Kind(
        lambda path: shutil.copy(resources.trained_models() / "dnn.safetensors", path),
        (lambda path: load_weights(path, "dnn", names(), FEATURES_VERSION),),
    ),
    "store.sqlite": Kind(_store, (_read_store, _write_store)),
    "machine.toml": Kind(
        lambda path: machine.save(machine.preset("epyc-zen5"), path), (lambda path: machine.load(path),)
    ),
    "sizes.csv": Kind(lambda path: path.write_text(_SIZES), (lambda path: read_problems(path, 2),)),
    "loops.txt": Kind(lambda path: path.write_text(_LOOPS), (lambda path: loop_string_file.read(path),)),
    "entry.json": Kind(
        lambda path: path.write_text(
            '{"headers": {}, "result": {"text": "", "document": {}, "shown": "", "seconds": 1.0}}'
        ),
        (_read_cached, _read_damaged),
    ),
}


def spoilt(data: bytes, seed: int, number: int) -> bytes:
    """The bytes with some changed: the front part, where the structure is, more often than the rest."""
    rng = random.Random(f"{seed} {number}")
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 40))):
        end = len(changed) if rng.random() < 0.5 else min(len(changed), 600)
        at = rng.randrange(max(end, 1))
        match rng.randrange(6):
            case 0 | 1:
                changed[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                changed[at : at + 1] = rng.choice((b'"', b"[", b"{", b"0", b"-", b"\0", b"\n", b"=", b",", b"1e999"))
            case 3:
                del changed[at : at + rng.choice((1, 8, 100))]
            case 4:
                changed[at:at] = rng.randbytes(rng.choice((1, 8, 100)))
            case 5:
                del changed[at + 1 :]
    return bytes(changed)


def try_file(name: str, folder: Path, data: bytes, seed: int, number: int) -> tuple[int, int]:
    """Read a spoilt file in every way; (taken, refused). Raises whatever is not polydl's own error."""
    taken = refused = 0
    for read in KINDS[name].read:
        path = folder / name
        for old in folder.glob(f"{name}*"):  # SQLite's journals, too
            old.unlink()
        path.write_bytes(spoilt(data, seed, number))
        try:
            read(path)
            taken += 1
        except PolyDLError as error:
            error.render()
            refused += 1
    return taken, refused
