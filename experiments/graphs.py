"""Programs of several nests beside torch: attention, perceptrons, an encoder layer, an LSTM cell, a bottleneck.

python experiments/graphs.py --json graphs.json [--only NAME]… [--prepare] [--again] [--ablation]

polydl compiles plain C: the scores, the softmax and the values of attention one after the other; of a perceptron a
product, a bias and a ReLU for each layer (`graph_workloads.py` has them all). It is called from C and from Python. The
peers are called as their users call them, in one process with one OpenMP runtime, in turns: for attention the flash
kernel by its own name, the MATH path, and Inductor; for perceptrons oneDNN's linear with its post-op by its own name on
packed weights (eager torch takes MKL for fp32, which is slow on AMD), eager, and Inductor with freezing; eager and
Inductor for the rest. Weights are constant for all of them: packed once. A figure is the median of the ratios within a
round. Each result is held against double precision.

--ablation times, beside these, polydl's best ranked variant whose nests share no loops.

Rows are written as they come; those that are in the file already are left out. --prepare compiles everything and times
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from graph_workloads import WORKLOADS, Workload
from native import openmp_runtimes, set_threads
from operators import _direct as direct
from operators import _timed as timed
from operators import difference
from output import commit, machine


@dataclass
class Row:
    """A workload, timed."""

    name: str
    operations: float
    times: Mapping[str, Sequence[float]]
    """By contender the seconds of a call in each round."""
    recipe: str
    error: float
    """Largest difference from the exact result over its largest magnitude."""
    peer_error: float

    def ratio(self, peer: str, mine: str = "python") -> float:
        """By how much polydl is faster; the median over the rounds."""
        pairs = zip(self.times[peer], self.times[mine], strict=True)
        return statistics.median(theirs / own for theirs, own in pairs)

    @property
    def merged(self) -> bool:
        """Whether loops are shared in what was chosen."""
        return "Merge(" in self.recipe


def measure(work: Workload, given: argparse.Namespace) -> Row | None:
    """One row; None where nothing is to be timed. Raises SystemExit where several OpenMP runtimes are loaded."""
    import torch
    import torch._inductor.config as inductor

    import polydl

    inductor.freezing = True
    torch._dynamo.reset()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    source, sizes = work.source()
    how = {"tune": not given.no_tune, "threads": given.threads, "constant": work.constant}
    kernel = polydl.compile(source, sizes, **how)
    arrays = work.arrays(torch)
    arguments = [arrays[p.name] for p in kernel.signature.parameters if p.is_array]
    with torch.no_grad():
        kernel(*arguments)
        exact, result = work.exact(torch, arrays), list(arrays.values())[-1].clone()
        if not exact.any():
            raise ValueError(f"{work.name}: the exact result is all zeros, which checks nothing")
        peers = work.peers(torch, arrays)
        theirs = next(iter(peers.values()))().reshape(exact.shape)
        errors = difference([result], [exact]), difference([theirs], [exact])
        if given.prepare:
            for peer in peers.values():
                peer()
            print(f"{work.name}: {errors[0]:.1e} (peer {errors[1]:.1e}) {kernel.made.recipe}", flush=True)
            return None
        if len(runtimes := openmp_runtimes()) > 1:
            sys.exit(f"several OpenMP runtimes are loaded, which spoils every timing: {', '.join(runtimes)}")
        contenders = {"polydl": direct(kernel, arrays, given.threads), "python": lambda: kernel(*arguments), **peers}
        if given.ablation:
            apart = polydl.compile(source, sizes, fuse=False, **how)
            apart(*arguments)
            contenders["apart"] = lambda: apart(*arguments)
        times = timed(contenders, given.rounds, given.turn_seconds)
    return Row(work.name, work.operations, times, kernel.made.recipe, *errors)


PEERS = (("flash", "onednn", "qlinear"), ("math", "eager"), ("inductor",))
"""Of each column of the table the peers that it is for."""


def table(rows: Sequence[Row]) -> str:
    """Markdown: over 1 is faster than the peer."""
    lines = [
        "| workload | us | GFLOP/s | merged | flash, oneDNN | of MATH, eager | of Inductor | unfused | error | its |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        seconds = statistics.median(row.times["polydl"])
        columns = []
        for names in (*PEERS, ("apart",)):
            found = [f"{row.ratio(name):.2f}" for name in names if name in row.times]
            columns.append(found[0] if found else "")
        lines.append(
            f"| {row.name} | {seconds * 1e6:.0f} | {row.operations / seconds * 1e-9:.0f} "
            f"| {'yes' if row.merged else 'no'} | {' | '.join(columns)} | {row.error:.0e} | {row.peer_error:.0e} |"
        )
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, required=True, metavar="FILE")
    options.add_argument("--only", action="append", metavar="NAME")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--rounds", type=int, default=11)
    options.add_argument("--turn-seconds", type=float, default=0.01)
    options.add_argument("--no-tune", action="store_true", help="polydl takes its best ranked variant, untimed")
    options.add_argument("--ablation", action="store_true", help="time polydl without shared loops and fusion, too")
    options.add_argument("--prepare", action="store_true", help="compile and check everything, time nothing")
    options.add_argument("--again", action="store_true", help="measure rows that are in the file, too")
    given = options.parse_args()
    set_threads(given.threads)
    known = json.loads(given.json.read_text(encoding="utf-8"))["rows"] if given.json.is_file() else []
    rows = {r["name"]: Row(**r) for r in known}
    failed = 0
    for work in WORKLOADS:
        if (given.only and work.name not in given.only) or (
            work.name in rows and not given.again and not given.prepare
        ):
            continue
        try:
            row = measure(work, given)
        except Exception as error:  # noqa: BLE001  # a row that fails is told, and the others are measured
            print(f"{work.name}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
            failed += 1
            continue
        if row is None:
            continue
        rows[work.name] = row
        document = {"machine": machine(), "commit": commit(), "threads": given.threads}
        document["rows"] = [asdict(r) for r in rows.values()]
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
        print(table([row]).splitlines()[-1], flush=True)
    if rows:
        print(table(list(rows.values())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
