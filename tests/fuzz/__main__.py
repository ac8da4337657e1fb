"""Differential fuzzing for a given time.

python -m tests.fuzz [--minutes 20] [--seed 0] [--jobs 2] [--out FOLDER] [--only c|affine] [--without counter,…]
                     [--graphs]

A third of the time for affine programs (`whole.py`): domains, accesses and dependences against enumeration, results of
the best variants against a brute-force interpreter, generated code under sanitizers. The rest is for programs over the
language of docs/input.md (`whole_programs.py`): what polydl writes against the compiled original, on adversarial data.
What differs is shrunk, printed on a line, and kept in --out: the program, and beside it the seed, sizes and data. Ends
with exit code 1 when something was found. With `--graphs`, graphs of PyTorch's operators through its backend instead
(`graphs.py`).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

from hypothesis import given, seed, settings

from tests.dependences.test_brute_force import same_pairs
from tests.frontend.test_random_programs import check as same_model
from tests.fuzz.campaign import SHRINKING, run
from tests.fuzz.whole import SANITIZED, Tally, explore
from tests.oracle import Limits, Program, programs

BATCH = 20
"""Affine programs of one seed and kind."""
KINDS = (
    Limits(),
    Limits(max_statements=6, max_depth=3),
    Limits(imperfect=False),
    Limits(linear=True),
    Limits(ctypes=("float",), conditions=False, division=False),
)


def model(limits: Limits, number: int) -> None:
    """Domains, accesses and dependences of a batch of programs."""

    @seed(number)
    @settings(max_examples=BATCH, deadline=None, database=None, derandomize=False)
    @given(programs(limits))
    def check(program: Program) -> None:
        same_model(program, symbolic=False)
        if not limits.linear:
            same_model(program, symbolic=True)
        same_pairs(program)

    check()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--out", type=Path)
    options.add_argument("--only", choices=("c", "affine"))
    options.add_argument("--shrink", type=float, default=SHRINKING, metavar="SECONDS")
    options.add_argument("--without", type=lambda text: text.split(","), default=[], metavar="FEATURE,…")
    options.add_argument("--graphs", action="store_true", help="graphs of PyTorch's operators")
    asked = options.parse_args()
    if asked.graphs:
        from tests.fuzz import graphs  # takes torch

        return graphs.main(asked.minutes, asked.seed)
    seconds = 60 * asked.minutes
    wrong = 0
    if asked.only != "c":
        wrong = affine(seconds if asked.only else seconds / 3, asked.seed)
    if asked.only != "affine":
        done = run(
            seconds if asked.only else 2 * seconds / 3, asked.seed, asked.jobs, asked.out, asked.shrink, asked.without
        )
        print(f"refused: {dict(done.refused.most_common())}")
        if done.undefined:
            print(f"programs that are not free of undefined behaviour: seeds {done.undefined}", file=sys.stderr)
        wrong |= bool(done.found or done.undefined or done.stuck)
    return int(wrong)


def affine(seconds: float, number: int) -> int:
    """Batches of affine programs, a seed each. 1 where one fails, with the seed to find it again."""
    end, tally = time.monotonic() + seconds, Tally()
    while time.monotonic() < end:
        limits = KINDS[number % len(KINDS)]
        try:
            model(Limits(**{**_fields(limits), "max_instances": 60}), number)
            explore(limits, BATCH, number, 4, tally, SANITIZED)
        except AssertionError:
            traceback.print_exc()
            print(f"found with --seed {number}", file=sys.stderr)
            return 1
        number += 1
        print(
            f"seed {number - 1}: {tally.programs} affine programs, {tally.variants} texts, "
            f"{len(tally.refused)} refused",
            flush=True,
        )
    for message in tally.refused[:5]:
        print(message)
    return 0


def _fields(limits: Limits) -> dict[str, object]:
    return {name: getattr(limits, name) for name in Limits.__dataclass_fields__}


if __name__ == "__main__":
    sys.exit(main())
