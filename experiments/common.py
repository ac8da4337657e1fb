"""What conv.py and gemm.py share: options, polydl's own side, running and writing; what all long scripts share: rows as
they come."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Contender, Problem, Row, Settings, WrongResult, measure
from native import keep_freed_memory, keep_to, openmp_runtimes, read_bandwidth, set_threads
from output import write_all

import polydl


def parser(description: str) -> argparse.ArgumentParser:
    """The options of both scripts."""
    defaults = Settings()
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    options.add_argument("--peers", default="onednn,xsmm", help="of onednn, xsmm, plain, curve; comma-separated")
    options.add_argument("--against", dest="peers", help="the same")
    options.add_argument("--json", type=Path, metavar="FILE")
    options.add_argument("--csv", type=Path, metavar="FILE")
    options.add_argument("--plot", "--chart", type=Path, metavar="PNG")
    options.add_argument("--rounds", type=int, default=defaults.rounds, help="per allocation")
    options.add_argument("--allocations", type=int, default=defaults.allocations, help="of the buffers")
    options.add_argument("--cold-rounds", type=int, default=defaults.cold_rounds, help="0: no cold figures")
    options.add_argument("--turn-seconds", type=float, default=defaults.turn_seconds, help="of a contender's turn")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", metavar="NAME", action="append", help="only the problems of this name")
    options.add_argument("--top-k", type=int, default=5, help="variants that polydl times")
    options.add_argument("--space", default="default", help="polydl's space")
    options.add_argument(
        "--prepack", action="store_true", help="polydl's constant operand (weights, B) packed once, outside of the time"
    )
    options.add_argument("--isa", help="keep polydl and the libraries to this instruction set: avx2 or avx512")
    options.add_argument("--skip-polydl", action="store_true", help="measure the peers alone")
    options.add_argument("--keep", type=Path, metavar="DIR", help="keep what polydl writes there")
    options.add_argument("--no-tune", action="store_true", help="polydl's first ranked variant, untimed")
    options.add_argument(
        "--made", action="store_true", help="take polydl's outputs that --keep DIR has: they are not made again"
    )
    return options


def on_isa(given: argparse.Namespace) -> str:
    """For a title: the instruction set that everything is kept to."""
    return f", {given.isa}" if given.isa else ""


def peers_of(given: argparse.Namespace) -> set[str]:
    """The peers asked for. Raises SystemExit for an unknown one."""
    names = set(given.peers.split(","))
    if unknown := names - {"onednn", "xsmm", "plain", "curve"}:
        sys.exit(f"no peer called {', '.join(sorted(unknown))}: there are onednn, xsmm, plain, curve")
    return names


def need_peer(contenders: Sequence[Contender]) -> None:
    """There must be something to compare with. Raises SystemExit."""
    if not contenders:
        sys.exit("none of the peers asked for is there: install torch or libxsmm-dev, or choose others with --peers")


def optimized(
    source: Path, name: str, defines: Mapping[str, int], given: argparse.Namespace, constant: str = ""
) -> tuple[Path, float]:
    """polydl's output for a kernel with these sizes, and the seconds that it took. `constant` is the operand that
    --prepack means."""
    target = scratch_folder(given) / f"{name}.c"
    if given.made and target.exists():
        return target, 0.0
    done = polydl.optimize(
        source,
        target,
        run=not given.no_tune,
        defines={key: str(value) for key, value in defines.items()},
        threads=given.threads,
        top_k=given.top_k,
        space=given.space,
        seed=given.seed,
        isa=given.isa,
        prepack=(constant,) if given.prepack and constant else (),
        budget=None,
    )
    if done.output is None:
        reports = [scop.report for scop in done.scops if scop.report]
        reasons = "; ".join(f"{m.id}: {m.status.value}: {m.message}" for report in reports for m in report.measurements)
        raise NoOutput(f"polydl wrote no output for {name}: {reasons}")
    return done.output, done.seconds["total"]


@dataclass(frozen=True)
class RowFile:
    """Rows of a long run in a file, a JSON object a line: each is written when it is there, and a run that goes on with
    the file makes those that are missing. What is interrupted loses one row."""

    path: Path
    fields: tuple[str, ...]
    """What each row has."""

    def rows(self) -> list[dict[str, Any]]:
        """Those that the file has. A last line that was cut off is removed. Raises SystemExit, with file and line, for
        a line that is no row."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        whole, _, cut = text.rpartition("\n")
        if cut:
            print(f"{self.path}: the last line was cut off and is made again", file=sys.stderr)
            self.path.write_text(whole + "\n" if whole else "", encoding="utf-8")
        return [self._row(line, number) for number, line in enumerate(whole.splitlines(), start=1)]

    def _row(self, line: str, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line)
            lacking = [name for name in self.fields if name not in row]
        except (ValueError, TypeError) as error:
            sys.exit(f"{self.path}:{number} is no row ({error}): remove the line, or name another file")
        if lacking or not isinstance(row, dict):
            sys.exit(f"{self.path}:{number} lacks {', '.join(lacking) or 'fields'}: is it of another script?")
        return row

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")


class NoOutput(Exception):
    """No variant passed its check."""


def scratch_folder(given: argparse.Namespace) -> Path:
    """Where generated C files go: `--keep`'s folder, or one that is removed at the end."""
    folder: Path = given.keep or Path(_scratch.name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_scratch = tempfile.TemporaryDirectory(prefix="polydl-experiments-")


def define_flags(defines: Mapping[str, int]) -> list[str]:
    """-D flags."""
    return [f"-D{name}={value}" for name, value in defines.items()]


def run(
    given: argparse.Namespace,
    title: str,
    problems: Sequence[tuple[str, Callable[[], Problem]]],
    refine: Callable[[Row], Row] = lambda row: row,
) -> int:
    """Measure problem after problem and write what was asked for. Returns the exit code: 1 when one came out wrong.

    `refine` makes of each measured row the one that is shown and written.

    What was measured so far is written after each problem, so that an interrupted run is not lost.
    """
    settings = Settings(given.rounds, given.allocations, given.turn_seconds, given.cold_rounds, given.seed)
    chosen = [(name, make) for name, make in problems if not given.only or name in given.only]
    if not chosen:
        sys.exit(f"no problem is called {given.only}: there are {', '.join(name for name, _ in problems)}")
    bandwidth = read_bandwidth()
    rows: list[Row] = []
    wrong: list[str] = []
    outputs = {"json": given.json, "csv": given.csv, "plot": given.plot}
    for number, (name, make) in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {name}", file=sys.stderr, flush=True)
        try:
            problem = make()
            if len(runtimes := openmp_runtimes()) > 1:
                sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
            rows.append(refine(measure(problem, settings)))
        except (WrongResult, NoOutput) as error:
            print(f"left out: {error}", file=sys.stderr)
            wrong.append(name)
            continue
        if number < len(chosen):
            write_all(rows, title, given.threads, bandwidth, outputs, quiet=True)
    if rows:
        write_all(rows, title, given.threads, bandwidth, outputs)
    if wrong:
        print(f"left out: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def prepare(threads: int, isa: str | None = None) -> None:
    """To be called before anything starts threads or asks what the processor has."""
    keep_to(isa)
    set_threads(threads)
    keep_freed_memory()
