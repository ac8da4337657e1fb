"""What reliability.md shows: killed processes, misbehaving candidates, timing of the same code, kept results.

python experiments/reliability.py kills [--writer 150] [--collect 50] [--seconds 12] [--seed 0]
python experiments/reliability.py candidates
python experiments/reliability.py same [--runs 40] [--load 0]
python experiments/reliability.py twice [--blind 1]
python experiments/reliability.py files [--count 2000] [--seed 0]

Each ends with exit code 1 when what it shows did not hold. Hostile input: python -m tests.fuzz.hostile.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from polydl import pipeline
from polydl.lower.emit import Generated
from polydl.measure import MeasureOptions, Toolchain, measure
from polydl.measure.store import Store
from polydl.measure.unit import original_code

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "matmul.c"
WRITER = """
import sys
from pathlib import Path
from polydl.measure.unit import original_code
from polydl.measure.store import Store, StoredMeasurement
store = Store(sys.argv[1])
store.add_kernel("k", "f", "void f(void) {}")
store.add_machine("m", "")
first = len(store)
for number in range(first, first + 1000000, 3):
    store.add(StoredMeasurement(
        kernel="k", workload="w", problem="p", sizes={"N": 1}, dtype="float", threads=1, variant=f"v{number + n}",
        recipe="", origin="", machine="m", compiler="cc", flags=(), status="verified", message="x" * 200,
        samples=(1e-3,) * 9, median=1e-3, interval=0.01,
    ) for n in range(3))
    print(f"v{number} v{number + 1} v{number + 2}", flush=True)
"""
"""Adds rows three at a time; a line is printed when they are committed."""
PROBLEMS = 16
SIZES = "workload,M,N,K\n" + "".join(f"mine,{8 * n},16,16\n" for n in range(1, PROBLEMS + 1))


def rows_of(path: Path) -> dict[str, str]:
    """What a store holds, by problem and variant. A store that was never made holds nothing."""
    if not path.exists():
        return {}
    with Store(path) as store:
        return {f"{r.problem} {r.variant}": repr(r) for r in store.rows()}


def kill_once(words: list[str | Path], delay: float, env: dict[str, str]) -> str:
    """Start a process, kill it with -9 after so many seconds; what it had said by then."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    assert process.stdout is not None
    time.sleep(delay)
    process.kill()
    said = process.stdout.read()
    process.wait()
    process.stdout.close()
    if process.returncode not in (0, -9):
        raise RuntimeError(f"it ended before it was killed: {said[-2000:]}")
    return said


def series(
    name: str,
    count: int,
    words: list[str | Path],
    store: Path,
    longest: float,
    told: Callable[[str], set[str]],
    key: Callable[[str], str],
    rng: random.Random,
    fresh: Callable[[], None] = lambda: None,
) -> tuple[int, int, int]:
    """Kill a process `count` times at random instants, each time on the store that the last one left.

    (committed rows or problems lost, clean resumes, rows added). `told` reads what was said to be committed,
    `key` names the same in a row's problem and variant.
    """
    lost = resumed = added = 0
    for number in range(count):
        fresh()
        before = rows_of(store)
        said = told(kill_once(words, rng.uniform(0, longest), dict(os.environ)))
        after = rows_of(store)
        lost += sum(after.get(row) != value for row, value in before.items())
        lost += len(said - {key(row) for row in after})
        whole = sqlite3.connect(store).execute("PRAGMA integrity_check").fetchone() if store.exists() else ("ok",)
        resumed += whole == ("ok",)
        added += len(after.keys() - before.keys())
        if (number + 1) % 5 == 0:
            print(f"{name}: {number + 1} kills, {lost} lost, {resumed} resumed, {added} rows added", flush=True)
    return lost, resumed, added


def kills(given: argparse.Namespace) -> int:
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="polydl-kills-") as name:
        folder = Path(name)
        writer = [sys.executable, "-c", WRITER, folder / "writer.sqlite"]
        one = series("writer", given.writer, writer, folder / "writer.sqlite", 1.5,
                     lambda text: {f"v{n}" for n in re.findall(r"\bv(\d+)(?=[ \n])", text.rpartition("\n")[0] + "\n")},
                     lambda row: row.split()[1], rng)  # fmt: skip
        sizes, store = folder / "sizes.csv", folder / "collect.sqlite"
        sizes.write_text(SIZES)
        # Built beforehand, so that the instants fall into measuring and storing, not all into compiling.
        words = [sys.executable, "-m", "polydl", "collect", "--layers", sizes, "--store", store, "--samples", "4",
                 "--threads", "1", "--space", "small", "--scratch", folder / "scratch"]  # fmt: skip
        if given.collect:
            subprocess.run([*words, "--prepare-only"], check=True, capture_output=True)
            (folder / "scratch").rename(folder / "built")

        def fresh() -> None:
            """Something to measure: what is built, and when everything is measured, a new store."""
            if len({row.split()[0] for row in rows_of(store)}) == PROBLEMS:
                for path in folder.glob("collect.sqlite*"):
                    path.unlink()
            shutil.rmtree(folder / "scratch", ignore_errors=True)
            shutil.copytree(folder / "built", folder / "scratch")

        other = series("collect", given.collect, words, store, given.seconds,
                       lambda text: set(re.findall(r"  (\d+x16x16): \d+ variants", text)),
                       lambda row: row.split()[0], rng, fresh)  # fmt: skip
    lost, resumed = one[0] + other[0], one[1] + other[1]
    print(f"{given.writer} kills of a writer, {given.collect} of polydl collect: {lost} committed rows lost, "
          f"{resumed} clean resumes; {one[2]} and {other[2]} rows added")  # fmt: skip
    return int(lost != 0 or resumed != given.writer + given.collect)


def candidates(_: argparse.Namespace) -> int:
    """The kinds of tests/measure/test_misbehaving.py among a good one."""
    sys.path.insert(0, str(ROOT))
    from tests.measure.builders import QUICK, candidate, matmul
    from tests.measure.test_misbehaving import CASES, INCLUDES

    scop = matmul()
    made = {name: candidate(code, INCLUDES) for name, (code, _, _) in CASES.items()}
    report = measure(scop, made, Toolchain(), QUICK)
    wrong = 0
    print("| candidate | outcome | message |\n|---|---|---|")
    for one in report.measurements:
        expected = CASES[one.id][1]
        wrong += one.status is not expected
        print(f"| {one.id} | {one.status.value} | {one.message.splitlines()[0][:110] if one.message else ''} |")
    bad = sum(status.value != "verified" for _, status, _ in CASES.values())
    print(f"\n{len(CASES)} kinds, {bad} of them dropped; {wrong} with another outcome than expected")
    return int(wrong != 0 or not any(m.verified and m.samples for m in report.measurements))


def _spin() -> None:
    while True:
        pass


def same(given: argparse.Namespace) -> int:
    """The original against five copies of itself: a winner would be none."""
    scop = pipeline.only_scop(pipeline.load(EXAMPLE, defines={"M": 160, "N": 160, "K": 160}))
    original = original_code(scop).region
    copies = {f"copy {n}": Generated((), original + f"\n/* {n} */") for n in range(5)}
    spinners = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(given.load)]
    for process in spinners:
        process.start()
    winners, noises, advantages, warned = 0, [], [], 0
    for run in range(given.runs):
        report = measure(scop, copies, Toolchain(), MeasureOptions(seed=run, budget=0.1))
        best = report.best()
        winners += best is not report.original
        noises.append(report.noise)
        advantages.append(max(m.speedup for m in report.measurements) - 1)
        warned += report.disturbed
    for process in spinners:
        process.terminate()
    middle = sorted(noises)[len(noises) // 2]
    print(
        f"{given.runs} runs of five copies against the original, {given.load} other busy processes: {winners} false "
        f"winners; noise {100 * middle:.2f} % (median), largest {100 * max(noises):.1f} %; largest apparent advantage "
        f"{100 * max(advantages):.1f} %; {warned} runs said to be disturbed"
    )
    return 0


CC = """#!/bin/sh
echo "$@" >> {log}
exec cc "$@"
"""


UNDISTURBED = """
import math, sys
from polydl.measure import busy, timing
timing.machine_warnings = lambda: []
timing._DRIFT = math.inf
busy.Others.warnings = lambda self: []
from polydl.cli import main
main()
"""
"""The command line, blind to other load."""


def twice(given: argparse.Namespace) -> int:
    """The same command twice, with a compiler that keeps a list of its calls. On a busy machine nothing is kept;
    --blind 1 makes the first run blind to that, so that the second one can be looked at."""
    with tempfile.TemporaryDirectory(prefix="polydl-twice-") as name:
        folder = Path(name)
        log, wrapper = folder / "calls", folder / "logged-cc"
        wrapper.write_text(CC.format(log=log))
        wrapper.chmod(0o755)
        env = {**os.environ, "POLYDL_CACHE": str(folder / "kept")}
        words = [sys.executable, "-m", "polydl", "optimize", EXAMPLE, "-o", folder / "out.c", "--cc", str(wrapper)]
        words += [part for size in ("M", "N", "K") for part in ("-D", f"{size}=256")]
        calls = [0]
        texts: list[str] = []
        for run in range(6):
            start, cpu = time.perf_counter(), os.times()
            blind = [sys.executable, "-c", UNDISTURBED] if given.blind and run == 0 else words[:3]
            done = subprocess.run([*blind, *words[3:]], env=env, check=True, capture_output=True, text=True)
            calls.append(len(log.read_text().splitlines()))
            texts.append((folder / "out.c").read_text())
            used = os.times().children_user + os.times().children_system - cpu.children_user - cpu.children_system
            print(
                f"run {run + 1}: {time.perf_counter() - start:.2f} s ({used:.2f} s of processor time), "
                f"{calls[-1] - calls[-2]} runs of the compiler"
            )
            if "as measured on" in done.stdout:
                return int(calls[-1] != calls[-2] or texts[-1] != texts[-2])
            print(
                "  not kept: "
                + "; ".join(line for line in done.stdout.splitlines() if "disturbed" in line or "note" in line)
            )
    return 1


def files(given: argparse.Namespace) -> int:
    """Spoilt rankers, stores, machine files and lists: taken, or refused with one of polydl's errors."""
    sys.path.insert(0, str(ROOT))
    from tests.fuzz.hostile_files import KINDS, try_file

    warnings.simplefilter("ignore")  # a damaged result of an earlier run is told by a warning
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="polydl-files-") as name:
        folder = Path(name)
        os.environ["POLYDL_CACHE"] = name
        for kind, files_of in KINDS.items():
            good = folder / f"good-{kind}"
            files_of.make(good)
            data, taken, refused = good.read_bytes(), 0, 0
            for number in range(given.count):
                try:
                    more = try_file(kind, folder, data, given.seed, number)
                    taken, refused = taken + more[0], refused + more[1]
                except Exception:  # noqa: BLE001  (finding these is the purpose; each is reported)
                    wrong += 1
                    print(f"{kind} {number}:")
                    traceback.print_exc()
            print(f"{kind}: {given.count} spoilt files, {taken} times read, {refused} times refused", flush=True)
    print(f"{wrong} tracebacks")
    return int(wrong != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run, options in (
        (kills, {"--writer": 150, "--collect": 50, "--seconds": 12, "--seed": 0}),
        (candidates, {}),
        (same, {"--runs": 40, "--load": 0}),
        (twice, {"--blind": 0}),
        (files, {"--count": 2000, "--seed": 0}),
    ):
        command = commands.add_parser(run.__name__)
        for name, default in options.items():
            command.add_argument(name, type=int, default=default)
        command.set_defaults(run=run)
    given = parser.parse_args()
    return int(given.run(given))


if __name__ == "__main__":
    sys.exit(main())
