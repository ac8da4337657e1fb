"""What calling outputs beside their sources costs and finds: every program of the corpus and of the everyday list, as
`optimize --no-run` writes it with the sizes of the list.

    python experiments/source_check.py [--only NAME] [--every N]
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import polydl  # noqa: E402
from polydl.base.errors import PolyDLError  # noqa: E402
from tests.programs.corpus import catalogue  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1, help="every so many-th program")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the number of the first program")
    chosen = parser.parse_args()
    seconds, shares, faults, calls, uncalled = [], [], 0, 0, 0
    entries = [
        (folder, *one) for folder in ("programs", "everyday") for one in catalogue(ROOT / "tests" / folder).items()
    ]
    for folder, name, entry in entries[chosen.first :: chosen.every]:
        if chosen.only not in name:
            continue
        path = ROOT / "tests" / folder / f"{name}.c"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                text = path.read_text(encoding="utf-8")
                values = entry.sizes[0]
                given = {n: v for n, v in values.items() if re.search(rf"\b(int|long|size_t|unsigned) {n}\b", text)}
                macros = {n: v for n, v in values.items() if n not in given}
                found = polydl.optimize(path, run=False, defines=macros, sizes=given)
            except PolyDLError as error:
                print(f"{name:28} refused: {error.reason[:100]}", flush=True)
                continue
        took, checked = found.seconds["check"], found.checked
        seconds.append(took)
        shares.append(took / found.seconds["total"])
        faults += len(checked.faults)
        calls += checked.calls
        uncalled += len(checked.not_called)
        told = [f"WRONG {fault}" for fault in checked.faults] + [f"undefined {one}" for one in checked.undefined[:2]]
        told += [f"not called: {why}" for why in checked.not_called.values()]
        print(f"{name:28} {took:6.2f} s  {checked.calls:4} calls  {'; '.join(told)[:300]}", flush=True)
    print(f"{len(seconds)} programs, {calls} calls, {faults} wrong, {uncalled} functions not called")
    print(f"seconds: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    print(f"of a run, in the mean: {statistics.mean(shares):.0%}")


if __name__ == "__main__":
    main()
