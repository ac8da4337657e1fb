"""polydl's own speed, stage by stage, compared with a committed baseline: the guard against a tool that gets slower.

    python experiments/tool_speed.py             compare with experiments/tool_speed.json; exit code 1 if slower
    python experiments/tool_speed.py --update    write the baseline anew
    make bench                                   the first of these

The unit is a reference load of plain Python and NumPy (`reference`), measured in turn with the stages, round after
round: what is compared is the median over the rounds of (stage / reference), which says the same on a faster machine
and on one whose clock drifts. Times are of the processor (user and system, child processes included), so that what
else runs matters little. Nothing is compiled or run but the preprocessor; machine and threads are fixed.

A stage fails when its ratio is above the baseline's times 1 + tolerance in the first measurement and in a second one.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import polydl
from polydl.inspect.analyses import analyze
from polydl.lower.emit import generate
from polydl.model.scop import Scop
from polydl.schedule.fused_scop import fuse

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_suffix(".json")
EXAMPLES, PROGRAMS = ROOT / "examples", ROOT / "tests" / "programs"
MACHINE, THREADS = "epyc-zen5", 8
TOLERANCE = 0.25
"""Two runs of the same code differ by up to a tenth here; a change worth looking at makes a stage slower by more."""
ROUNDS = 5
ENOUGH = 0.1
"""Seconds of a stage that are measured in a round, at least."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A piece of polydl's work."""

    name: str
    what: str
    """For people: on which input."""
    run: Callable[[], object]


def reference() -> float:
    """The unit: interpreted loops over integers, dictionaries and tuples, and NumPy on arrays that fit a cache, about
    half of the time each, as polydl spends it. Returns a number that depends on all of it."""
    seen: dict[tuple[int, int], int] = {}
    for i in range(120_000):
        key = (i % 613, i % 419)
        seen[key] = seen.get(key, 0) + (i * 7) % 11
    values = np.arange(40_000, dtype=np.float64).reshape(200, 200)
    total = 0.0
    for step in range(60):
        moved = np.where(values > step, values * 0.5, values + 1.0)
        total += float(np.prod(1.0 + moved[:, :40] * 1e-6, axis=1).sum()) + float(np.sort(moved.ravel())[step])
    return total + sum(seen.values())


def stages() -> list[Stage]:
    """What is measured; inputs that a stage does not work on are prepared before."""
    sizes = {"M": "1024", "N": "1024", "K": "1024"}
    conv = polydl.load(EXAMPLES / "conv2d.c").scops[0]
    product = polydl.load(EXAMPLES / "matmul.c", defines=sizes).scops[0]
    layer = polydl.load(EXAMPLES / "mlp_layer.c").scops[0]
    stencil = polydl.load(PROGRAMS / "jacobi_2d.c").scops[0]
    lu = polydl.load(PROGRAMS / "lu.c").scops[0]
    target = polydl.Options(machine=MACHINE).target()
    ranked = polydl.rank(conv, machine=MACHINE, threads=THREADS)
    first = ranked.variants[0]

    def rank(scop: Scop, ranker: str = "traffic", space: str = "default") -> Callable[[], object]:
        return lambda: polydl.rank(scop, machine=MACHINE, ranker=ranker, space=space, threads=THREADS)

    return [
        Stage("front end", "conv2d.c and adi.c", lambda: [polydl.load(p) for p in _read()]),
        Stage("analysis", "conv2d.c, lu.c", lambda: [analyze(scop, target) for scop in (conv, lu)]),
        Stage("ranking, traffic", "matmul.c, 1024^3", rank(product)),
        Stage("ranking, dnn", "matmul.c, 1024^3", rank(product, "dnn")),
        Stage("ranking, cost", "conv2d.c, small space", rank(conv, "cost", "small")),
        Stage("scheduling", "jacobi_2d.c", rank(stencil)),
        Stage("code generation", "conv2d.c, the best variant", lambda: generate(ranked.scop, first.tree)),
        Stage("fusion", "mlp_layer.c", lambda: fuse(layer)),
        Stage("search", "mlp_layer.c, all but measuring", _searched),
    ]


def _read() -> Sequence[Path]:
    return EXAMPLES / "conv2d.c", PROGRAMS / "adi.c"


def _searched() -> object:
    return polydl.optimize(EXAMPLES / "mlp_layer.c", run=False, machine=MACHINE, threads=THREADS)


def processor_seconds(work: Callable[[], object], times: int = 1) -> float:
    """User and system time that a call takes, with that of the processes that it waited for; mean of so many calls."""
    before = _used()
    for _ in range(times):
        work()
    return (_used() - before) / times


def _used() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, who))


def measure(chosen: Sequence[Stage], rounds: int) -> dict[str, float]:
    """Median over the rounds of each stage's time over the reference's, once warm; a short stage runs several times."""
    ratios: dict[str, list[float]] = {stage.name: [] for stage in chosen}
    times = {stage.name: math.ceil(ENOUGH / processor_seconds(stage.run)) for stage in chosen}
    for _ in range(rounds):
        for stage in chosen:
            unit = processor_seconds(reference)
            ratios[stage.name].append(processor_seconds(stage.run, times[stage.name]) / unit)
    return {name: statistics.median(found) for name, found in ratios.items()}


def slower(found: Mapping[str, float], baseline: Mapping[str, float], tolerance: float) -> list[str]:
    """The stages that are slower than the baseline by more than the tolerance (a fraction of it)."""
    return [name for name, ratio in found.items() if name in baseline and ratio > baseline[name] * (1 + tolerance)]


def table(chosen: Sequence[Stage], found: Mapping[str, float], baseline: Mapping[str, float], tolerance: float) -> str:
    """What people read."""
    lines = [f"{'stage':20} {'on':30} {'now':>9} {'baseline':>9} {'change':>8}"]
    bad = slower(found, baseline, tolerance)
    for stage in chosen:
        now, before = found[stage.name], baseline.get(stage.name)
        change = "new" if before is None else f"{now / before - 1:+.0%}"
        mark = "  SLOWER" if stage.name in bad else ""
        shown = "" if before is None else f"{before:9.2f}"
        lines.append(f"{stage.name:20} {stage.what:30} {now:9.2f} {shown:>9} {change:>8}{mark}")
    return "\n".join(lines)


def document(found: Mapping[str, float], rounds: int) -> dict[str, object]:
    """What is committed: the ratios, and where they were measured (which they should not depend on)."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "unit": "processor time over that of experiments/tool_speed.py:reference",
        "command": "python experiments/tool_speed.py --update",
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rounds": rounds,
        "stages": {name: round(ratio, 3) for name, ratio in found.items()},
    }


def main() -> int:
    """Entry point. Exit code 1 where a stage is slower than its baseline."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--update", action="store_true", help="write the baseline anew")
    options.add_argument("--baseline", type=Path, default=BASELINE, metavar="FILE")
    options.add_argument("--tolerance", type=float, default=TOLERANCE, help="fraction by which a stage may be slower")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--only", action="append", metavar="STAGE", help="repeatable")
    given = options.parse_args()
    chosen = [s for s in stages() if not given.only or s.name in given.only]
    if not chosen:
        options.error(f"no such stage; there are {', '.join(s.name for s in stages())}")
    found = measure(chosen, given.rounds)
    if given.update:
        old = json.loads(given.baseline.read_text())["stages"] if given.only and given.baseline.is_file() else {}
        given.baseline.write_text(json.dumps(document(old | found, given.rounds), indent=2) + "\n", encoding="utf-8")
        print(table(chosen, found, {}, given.tolerance))
        return 0
    baseline = json.loads(given.baseline.read_text(encoding="utf-8"))["stages"]
    if bad := slower(found, baseline, given.tolerance):
        print(f"measured again: {', '.join(bad)}", file=sys.stderr)
        again = measure([s for s in chosen if s.name in bad], given.rounds)
        found = found | {name: min(found[name], ratio) for name, ratio in again.items()}
    print(table(chosen, found, baseline, given.tolerance))
    return 1 if slower(found, baseline, given.tolerance) else 0


if __name__ == "__main__":
    sys.exit(main())
