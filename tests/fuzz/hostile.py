"""Hostile input for the front end: nothing but a result or one of polydl's own errors, soon, and in bounded memory.

python -m tests.fuzz.hostile [--count 100000] [--seed 0] [--first 0] [--json FILE] [--keep FOLDER]

Every input goes through `polydl.pipeline.load`; of those that are accepted, some also through `analyze` and `rank`.
A worker process with limits does the work; this one watches it, and replaces it when it dies or takes too long. Ends
with exit code 1 when something went wrong; --keep holds those inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.hostile_inputs import ROOT, Hostile, hostile

HANG_SECONDS = 10.0
"""Processor time that one input may take, its preprocessor included: other load on the machine counts for nothing."""
SEARCH_SECONDS = 60.0
"""Processor time of analysing and ranking an accepted input: a search, whose parts have quotas of their own."""
STUCK_SECONDS = 300.0
"""Wall-clock time."""
SLOW_SECONDS = 4.0
"""From which an input is named."""
MEMORY = 4 << 30
"""Bytes of address space of the worker."""
RENEWED = 5000
"""Inputs after which a worker is replaced, so that the peak of its memory means something."""
SHARE = 0.02
"""Of the accepted inputs: those that are analysed and ranked, too."""


@dataclass
class Tally:
    """What became of the inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """`accepted`, `ranked`, or the name of polydl's error."""
    kinds: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)
    """Number, kind and text of each error that is not polydl's."""
    hangs: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    """Workers that ended by themselves."""
    slowest: float = 0.0
    """Processor seconds of one input."""
    slowest_number: int = -1
    peak: int = 0
    """Bytes: largest resident set of a worker."""
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        return not (self.tracebacks or self.hangs or self.deaths)


def consume(one: Hostile, folder: Path, started: Callable[[], None] = lambda: None) -> str:
    """Read one input as polydl does; what became of it. `started` hears when it begins to search.

    Raises whatever is not polydl's own error.
    """
    from polydl import pipeline
    from polydl.base.errors import PolyDLError
    from polydl.inspect.analyses import analyze

    path = folder / "input.c"
    path.write_bytes(one.data)
    try:
        program = pipeline.load(
            path, require_sizes=one.require_sizes, strict_alias=one.strict_alias, sizes=one.sizes, machine="epyc-zen5"
        )
    except PolyDLError as error:
        error.render()
        return type(error).__name__
    if one.number % round(1 / SHARE):
        return "accepted"
    started()
    try:
        for scop in program.scops:
            analyze(scop, pipeline.Options(machine="epyc-zen5").target()).to_data()
            if not scop.parameters:
                pipeline.rank(scop, space="small", machine="epyc-zen5", threads=2)
    except PolyDLError as error:
        error.render()
        return f"accepted, then {type(error).__name__}"
    return "analysed"


def work(seed: int, first: int, count: int) -> None:
    """The worker: a line of JSON before and after each input on standard output."""
    # Imports are nobody's time.
    from polydl import pipeline  # noqa: F401

    with tempfile.TemporaryDirectory(prefix="polydl-hostile-") as folder:
        for number in range(first, first + count):
            _say({"number": number})
            one = hostile(seed, number)
            start = _used()
            try:
                outcome, error = consume(one, Path(folder), lambda: _say({"search": True})), ""
            except Exception:  # noqa: BLE001  (finding these is the purpose; each is reported)
                outcome, error = "traceback", traceback.format_exc()
            seconds = _used() - start
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            _say({"kind": one.kind, "outcome": outcome, "error": error, "seconds": seconds, "peak": peak})


def _used() -> float:
    """Processor time of this process and the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _say(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def run(seed: int, first: int, count: int, tally: Tally, every: int = 2000) -> None:
    """Put `count` inputs through workers, and count what becomes of them."""
    start, number, end = time.monotonic(), first, first + count
    while number < end:
        number = _one_worker(seed, number, min(RENEWED, end - number), tally, every)
    tally.seconds += time.monotonic() - start


def _one_worker(seed: int, first: int, count: int, tally: Tally, every: int) -> int:
    """The number of the input to go on with."""
    words = [sys.executable, "-m", "tests.fuzz.hostile", "--worker", "--seed", str(seed)]
    words += ["--first", str(first), "--count", str(count)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, bufsize=0)
        assert process.stdout is not None
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        number, busy, begun, spent, limit = first - 1, False, time.monotonic(), 0.0, HANG_SECONDS
        try:
            while True:
                if not select.select([process.stdout], [], [], 1.0)[0]:
                    cpu, wall = _cpu_seconds(process.pid) - spent, time.monotonic() - begun
                    if busy and (cpu > limit or wall > STUCK_SECONDS):
                        tally.hangs.append(f"{number}: {cpu:.1f} s of processor time in {wall:.0f} s")
                        print(tally.hangs[-1], flush=True)
                        tally.inputs += 1
                        return number + 1
                    continue
                line = process.stdout.readline()
                if not line:
                    break
                said = json.loads(line)
                if "number" in said:
                    number, busy = said["number"], True
                    begun, spent, limit = time.monotonic(), _cpu_seconds(process.pid), HANG_SECONDS
                    continue
                if "search" in said:
                    spent, limit = _cpu_seconds(process.pid), SEARCH_SECONDS
                    continue
                busy = False
                _count(tally, number, said)
                if tally.inputs % every == 0:
                    print(f"{tally.inputs} inputs: {dict(tally.outcomes)}, {len(tally.hangs)} hangs", flush=True)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if busy:
            errors.seek(0)
            tally.deaths.append(f"{number}: {process.returncode}: {errors.read()[-2000:].decode(errors='replace')}")
            tally.inputs += 1
    return number + 1


def _cpu_seconds(process: int) -> float:
    """Processor time of a process, its children and those that it has waited for; 0 when it has ended."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    own = sum(int(word) for word in words[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_seconds(int(child)) for child in children)


def _count(tally: Tally, number: int, said: dict[str, str | float]) -> None:
    tally.inputs += 1
    tally.kinds[str(said["kind"])] += 1
    tally.outcomes[str(said["outcome"])] += 1
    tally.pairs[f"{said['kind']} {said['outcome']}"] += 1
    if said["error"]:
        tally.tracebacks.append(f"{number} ({said['kind']}): {said['error']}")
        print(f"{number} ({said['kind']}): {said['error']}", flush=True)
    if float(said["seconds"]) > tally.slowest:
        tally.slowest, tally.slowest_number = float(said["seconds"]), number
    if float(said["seconds"]) > SLOW_SECONDS or "Toolchain" in str(said["outcome"]):
        print(f"{number} ({said['kind']}): {said['outcome']} after {said['seconds']:.1f} s", flush=True)
    tally.peak = max(tally.peak, int(said["peak"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.seed, given.first, given.count)
        return 0
    tally = Tally()
    run(given.seed, given.first, given.count, tally)
    for text in (*tally.hangs, *tally.deaths):
        print(text)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        for text in (*tally.tracebacks, *tally.hangs, *tally.deaths):
            number = int(text.partition(":")[0].partition(" ")[0])
            (given.keep / f"{number}.c").write_bytes(hostile(given.seed, number).data)
    if given.json is not None:
        given.json.write_text(json.dumps(asdict(tally), indent=2) + "\n")
    print(
        f"{tally.inputs} inputs in {tally.seconds / 60:.1f} min: {len(tally.tracebacks)} tracebacks, "
        f"{len(tally.hangs)} hangs, {len(tally.deaths)} deaths; slowest {tally.slowest:.2f} s "
        f"(number {tally.slowest_number}), {tally.peak >> 20} MiB at most; {dict(tally.outcomes)}"
    )
    return 0 if tally.clean else 1


if __name__ == "__main__":
    sys.exit(main())
