"""Differential fuzzing for a given time.

python -m tests.fuzz [--minutes 20] [--seed 0] [--graphs]

Batches of random programs, a seed each: domains, accesses and dependences against enumeration, results of the best
variants against a brute-force interpreter, generated code under sanitizers. With `--graphs`, graphs of PyTorch's
operators through its backend instead (`tests.fuzz.graphs`). Ends with exit code 1 and the smallest
program that fails, and the seed to find it again.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from hypothesis import given, seed, settings

from tests.dependences.test_brute_force import same_pairs
from tests.frontend.test_random_programs import check as same_model
from tests.fuzz.whole import SANITIZED, Tally, explore
from tests.oracle import Limits, Program, programs

BATCH = 20
"""Programs of one seed and kind."""
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
    def run(program: Program) -> None:
        same_model(program, symbolic=False)
        if not limits.linear:
            same_model(program, symbolic=True)
        same_pairs(program)

    run()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--graphs", action="store_true", help="graphs of PyTorch's operators")
    given_options = options.parse_args()
    if given_options.graphs:
        from tests.fuzz import graphs  # takes torch

        return graphs.main(given_options.minutes, given_options.seed)
    end = time.monotonic() + 60 * given_options.minutes
    tally = Tally()
    number = given_options.seed
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
            f"seed {number - 1}: {tally.programs} programs, {tally.variants} texts, {len(tally.refused)} refused",
            flush=True,
        )
    for message in tally.refused[:5]:
        print(message)
    return 0


def _fields(limits: Limits) -> dict[str, object]:
    return {name: getattr(limits, name) for name in Limits.__dataclass_fields__}


if __name__ == "__main__":
    sys.exit(main())
