"""Write a store of measurements as a Parquet file that is shipped, with its data card.

python experiments/export_data.py --store measurements.sqlite --name zen5
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polydl.base import resources
from polydl.base.errors import PolyDLError
from polydl.learn.train import parquet
from polydl.learn.train.training_data import digest
from polydl.measure.store import Store, StoredMeasurement

FOLDER = resources.trained_models() / "data"


def counted(values: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in values.most_common())


def least_slow(rows: Sequence[StoredMeasurement]) -> float:
    """How many times slower than the fastest of its pair the quickest of those marked `slow` is."""
    pairs: dict[tuple[object, ...], list[StoredMeasurement]] = {}
    for row in rows:
        pairs.setdefault((row.kernel, tuple(sorted(row.sizes.items())), row.threads, row.machine), []).append(row)
    ratios = [
        min(r.samples) / min(min(other.samples) for other in some)
        for some in pairs.values()
        for r in some
        if "slow" in r.marks
    ]
    return min(ratios, default=float("nan"))


def card(name: str, command: str, rows: Sequence[StoredMeasurement], exported: parquet.Exported, size: int) -> str:
    """The data card; every figure in it is computed here."""
    verified = [r for r in rows if r.verified and r.variant != "original"]
    problems = {(r.kernel, tuple(sorted(r.sizes.items())), r.threads, r.machine): r for r in rows}
    intervals = np.array([r.interval for r in verified if r.interval is not None])
    machines = []
    for fingerprint, text in exported.machines.items():
        described = tomllib.loads(text)
        machines.append(f"`{fingerprint}` ({described.get('name', '?')}, {described.get('cores', '?')} cores)")
    functions = {hash_: function for hash_, (function, _) in exported.kernels.items()}
    origins = Counter(reason for r in verified for reason in r.origin.split(","))
    failed = counted(Counter(r.status for r in rows if not r.verified)) or "none"
    created = sorted(r.created for r in rows)
    types = sorted({r.dtype for r in rows} - {""})
    computed = f"computed in {', '.join(types)}, " if types else ""
    narrow = float((intervals <= 0.02).mean()) if len(intervals) else 0.0
    return f"""# Measurements of loop variants: `{name}`

`{name}.parquet` ({size / 1e6:.1f} MB): {len(verified)} measured variants of {len(problems)} (kernel, size) pairs,
{computed}each compiled, checked against the original bit for bit on integer-valued inputs, and timed. Digest of the
data `{digest(rows)}`.

- Pairs by origin of the sizes: {counted(Counter(r.workload for r in problems.values()))}. Kernels:
  {counted(Counter(functions[r.kernel] for r in problems.values()))} (their C text is in the file's metadata).
- Threads: {", ".join(sorted({str(r.threads) for r in rows}))}; one image a thread. Machine: {", ".join(machines)}; its
  TOML description is in the metadata. Compiler: {", ".join(sorted({r.compiler for r in rows}))}, flags
  {" ".join(rows[0].flags)}.
- Collected {created[0]} to {created[-1]} (UTC) by `{command}`,
  seed {rows[0].seed}.
- Which variants: of each pair the first six (of different families) in the order of each of `traffic`, `trace` and
  `cost`, the loops as written around a microkernel (`default`), half of the rest from the better tenth of the traffic
  order, a sixth stratified over its deciles, the others at random, all in the `default` space; `trace` and `cost` order
  a subset of 1200. A variant can have several reasons: {counted(origins)}. Pairs above 2 GFLOP have half as many
  variants; larger ones than the command's --most-gflop (default: 10) were left out.
- Timing: interleaved with all other variants of the pair in one process, nothing else running, on three placements of
  the arrays; 6 to 9 samples, then twice up to 18 more for variants within 1.5 times the best, until the half width of
  the median's 95 % confidence interval (order statistics) is under 2 %. That is so for {narrow:.0%} of the variants;
  the median interval is {np.median(intervals):.2%}. All samples are kept; outliers are marked, not removed. Other
  virtual machines on the host lengthen all samples of a round alike: the median of a variant's samples is
  {disturbed(rows):.0%} above their tenth percentile (median over the variants). So training and evaluation tell what
  a round adds from what a variant takes (`polydl.measure.rounds`): the n-th samples of all variants of
  a pair are of one round.
- `marks`: `slow` ({sum("slow" in r.marks for r in verified)} variants: far slower than the fastest, at least
  {least_slow(verified):.1f} times, timed by their one verification run), `capped`
  ({sum("capped" in r.marks for r in verified)}: interval still wider).
- Failed ({sum(not r.verified for r in rows)} rows, kept): {failed}
  (a variant is stopped at 20 times the fastest, at least 0.5 s).
- `features` and `scores` are those of the analytic rankers (bytes, seconds; five digits).

Limits: a virtual machine with two cores of a shared host; sizes of image networks and random matrix products
only. Licence: BSD-3-Clause, as the code. The layer sizes are those published with PolyDL (Tavarageri et al., 2021).
"""


def disturbed(rows: Sequence[StoredMeasurement]) -> float:
    """Median over the variants that were timed often of the median of their samples over their tenth percentile, less
    one."""
    ratios = [np.median(r.samples) / np.percentile(r.samples, 10) for r in rows if r.verified and len(r.samples) >= 6]
    return float(np.median(ratios)) - 1


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--store", type=Path, metavar="SQLITE", help="default: the file is there; only its card")
    options.add_argument("--name", required=True, help="of the file and its card: the machine")
    options.add_argument("--command", default="python experiments/collect.py", help="by which it was collected")
    options.add_argument("--out", type=Path, default=FOLDER, metavar="DIR")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{given.name}.parquet"
    try:
        if given.store is not None:
            with Store(given.store, read_only=True) as store:
                parquet.write(store, path)
        exported = parquet.read(path)
    except PolyDLError as error:
        sys.stderr.write(error.render() + "\n")
        return error.exit_code
    text = card(given.name, given.command, exported.rows, exported, path.stat().st_size)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    sys.stderr.write(f"{path}: {len(exported.rows)} rows, {path.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
