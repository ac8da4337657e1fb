"""The Markdown tables of experiments/README.md from what conv.py and gemm.py wrote.

python experiments/tables.py conv_resnet.json conv_fastrcnn.json …
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import geomean

Row = Mapping[str, Any]


def lines(rows: Sequence[Row]) -> list[str]:
    """A line a problem, and the geometric means."""
    result = ["| problem | best peer | polydl | ratio | cold | of peak | search, s |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        peer = min(row["ratios"], key=lambda name: row["ratios"][name])
        best = f"{row['peers'][peer]:.0f} ({peer.removeprefix('oneDNN ')})"
        result.append(
            f"| {row['name']} | {best} | {row['polydl']:.0f} | {row['ratio_to_best_peer']:.2f} "
            f"| {row['cold']['ratio_to_best_peer']:.2f} | {row['fraction_of_peak']:.0%} | {row['polydl_seconds']:.0f} |"
        )
    return result


def summary(name: str, rows: Sequence[Row]) -> str:
    """A line of the table of networks."""
    ratios = [row["ratio_to_best_peer"] for row in rows]
    least = min(rows, key=lambda row: row["ratio_to_best_peer"])
    cold = geomean([row["cold"]["ratio_to_best_peer"] for row in rows])
    peak = geomean([row["fraction_of_peak"] for row in rows])
    under = sum(r < 0.97 for r in ratios)
    slowest = max(row["polydl_seconds"] for row in rows)
    return (
        f"| {name} | {len(rows)} | {geomean(ratios):.2f} | {cold:.2f} | {peak:.1%} "
        f"| {least['ratio_to_best_peer']:.2f} ({least['name']}) | {under} | {slowest:.0f} |"
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", type=Path, nargs="+", metavar="JSON")
    options.add_argument("--summary", action="store_true", help="only the table of networks")
    given = options.parse_args()
    documents = {path: json.loads(path.read_text(encoding="utf-8")) for path in given.files}
    every = [row for document in documents.values() for row in document["rows"]]
    if not every:
        sys.exit("no rows in the files")
    heading = "| network | layers | ratio | cold | of peak | least ratio | under 0.97 | longest search, s |"
    out = [heading, "|---|---|---|---|---|---|---|---|"]
    out += [summary(d["rows"][0].get("network", path.stem), d["rows"]) for path, d in documents.items() if d["rows"]]
    if len(documents) > 1:
        out.append(summary("all", every))
    if not given.summary:
        out += ["", *lines(every)]
    sys.stdout.write("\n".join(out) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
