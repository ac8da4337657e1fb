"""Wall and processor seconds of whole `polydl optimize` processes, with default options: their children count.

python experiments/search_time.py --rows search_time.jsonl                        # programs of tests/everyday
python experiments/search_time.py --rows search_time.jsonl --seconds 380          # begins none after so many seconds
python experiments/search_time.py --rows resnet.jsonl --convolutions              # layers of examples/conv2d.c
python experiments/search_time.py --rows ten.jsonl --programs tests/programs --smallest 10 --before CHECKOUT --rounds 3
python experiments/search_time.py --rows search_time.jsonl --shown                # what the file has, nothing is run

Programs have the sizes called `bench` in their catalogue.toml, the longest texts come first, for they take longest;
layers are those of resnet whose channels are multiples of 64. Rows are written as they come, and those that the file
has are not made again, so that it goes on where it was stopped. With `--before` another checkout takes turns with this
one. Processor seconds say about the same on a machine that does other work, wall seconds don't.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from common import RowFile
from sizes import conv_layers

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.programs.corpus import Entry, catalogue  # noqa: E402

EXAMPLE = ROOT / "examples" / "conv2d.c"
BLOCK, IMAGES = 64, 2
SLOWEST = 10
"""Programs that are shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """A process."""

    program: str
    checkout: str
    """`this`, or the folder of the other one."""
    round: int
    wall: float
    processor: float
    """Seconds of user and system, of the process and of all that it waited for."""
    status: int
    """0: it wrote an output; negative: the signal that ended it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A program and its arguments for `polydl optimize`."""

    name: str
    arguments: tuple[str, ...]


def of_entry(entry: Entry) -> Task:
    """A program at the sizes of its `bench`."""
    macros = [f"-D{name}={value}" for name, value in entry.defines(entry.bench).items()]
    sizes = [f"--size={name}={value}" for name, value in entry.parameters(entry.bench).items()]
    return Task(entry.name, (str(entry.path), *macros, *sizes))


def layers() -> Iterator[Task]:
    """The convolutions of resnet."""
    for layer in conv_layers(networks=("resnet",)):
        if layer.C % BLOCK == layer.K % BLOCK == 0:
            values = {
                "NIMG": IMAGES, "NOFM": layer.K, "NIFM": layer.C, "OFH": layer.ofh, "OFW": layer.ofw,
                "KH": layer.kh, "KW": layer.kw, "STRIDE_H": layer.stride, "STRIDE_W": layer.stride,
            }  # fmt: skip
            yield Task(layer.name, (str(EXAMPLE), *(f"-D{name}={value}" for name, value in values.items())))


def run(task: Task, checkout: Path, limit: float) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and exit status of a process, which is ended after `limit` seconds."""
    with tempfile.TemporaryDirectory(prefix="polydl-search-time-") as folder:
        command = [sys.executable, "-m", "polydl", "optimize", *task.arguments, "--fresh", "-o", f"{folder}/out.c"]
        # Neither results nor times of other runs: each process finds all by itself.
        own = {"PYTHONPATH": str(checkout), "XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder}
        begin = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            status = child.wait()
        wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, status


def rows_of(file: RowFile) -> list[Row]:
    """Those that a file has. Raises SystemExit for one that is no such file."""
    return [Row(**values) for values in file.rows()]


def show(rows: Sequence[Row]) -> None:
    """The programs that take longest, and where there are two checkouts the medians of both."""
    of: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        of.setdefault((row.program, row.checkout), []).append(row)
    middle = {
        key: tuple(statistics.median(getattr(row, what) for row in some) for what in ("wall", "processor"))
        for key, some in of.items()
    }
    others = sorted({checkout for _, checkout in of} - {"this"})
    print(f"{'program':28} {'wall s':>8} {'processor s':>12}" + "".join(f"   {Path(o).name:>24}" for o in others))
    own = sorted((key for key in middle if key[1] == "this"), key=lambda key: -middle[key][1])
    for name, checkout in own if others else own[:SLOWEST]:
        wall, processor = middle[name, checkout]
        beside = [middle.get((name, other)) for other in others]
        print(f"{name:28} {wall:8.2f} {processor:12.2f}" + "".join(f"   {b[0]:12.2f}{b[1]:12.2f}" for b in beside if b))
    if own:
        print(f"{len(own)} programs: median {statistics.median(middle[key][1] for key in own):.1f} processor seconds")
    if failed := sorted({row.program for row in rows if row.status}):
        print(f"without an output: {', '.join(failed)}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=Path, required=True, metavar="JSONL", help="where rows are added")
    options.add_argument("--programs", type=Path, default=ROOT / "tests" / "everyday", metavar="DIR")
    options.add_argument("--convolutions", action="store_true", help="layers of resnet in place of programs")
    options.add_argument("--only", metavar="NAME", action="append")
    options.add_argument("--smallest", type=int, metavar="N", help="the N programs with the shortest texts")
    options.add_argument("--before", type=Path, metavar="DIR", help="another checkout, which takes turns with this one")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--seconds", type=float, default=float("inf"), help="after which no process is begun")
    options.add_argument("--limit", type=float, default=200.0, help="seconds after which a process is ended")
    options.add_argument("--shown", action="store_true", help="show the rows; nothing is run")
    given = options.parse_args()
    entries = list(catalogue(given.programs.resolve()).values())
    entries.sort(key=lambda entry: (-len(entry.text), entry.name))
    entries = entries[-given.smallest :] if given.smallest else entries
    tasks = list(layers()) if given.convolutions else list(map(of_entry, entries))
    if unknown := set(given.only or ()) - {task.name for task in tasks}:
        sys.exit(f"no program is called {', '.join(sorted(unknown))}")
    tasks = [task for task in tasks if given.only is None or task.name in given.only]
    checkouts = {"this": ROOT} | ({str(given.before.resolve()): given.before.resolve()} if given.before else {})
    file = RowFile(given.rows, tuple(field.name for field in fields(Row)))
    known = {(row.program, row.checkout, row.round) for row in rows_of(file)}
    begin = time.perf_counter()
    for number, task, (name, checkout) in itertools.product(range(given.rounds), tasks, checkouts.items()):
        if given.shown or time.perf_counter() - begin > given.seconds:
            break
        if (task.name, name, number) not in known:
            row = Row(task.name, name, number, *run(task, checkout, given.limit))
            file.add(asdict(row))
            print(f"{task.name:28} {row.wall:8.2f} {row.processor:12.2f}  {row.status or ''}", flush=True)
    show(rows_of(file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
