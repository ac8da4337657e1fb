"""What it costs a call that the output asks whether its arguments overlap: a saxpy of eight elements, whose pointers
are `restrict` or are not.

    python experiments/overlap_checks.py [--rounds 15]

Prints nanoseconds of processor time per call, the median and the range of the rounds, in turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

import polydl

SAXPY = """\
__attribute__((noinline)) void {name}(int n, float a, const float *{restrict}x, float *{restrict}y)
{{
    for (int i = 0; i < n; i++) y[i] += a * x[i];
}}
"""
TIMER = """\
#include <stdio.h>
#include <time.h>
void asked(int n, float a, const float *x, float *y);
void promised(int n, float a, const float *restrict x, float *restrict y);
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(void)
{
    static float x[8], y[8];
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();
        for (int i = 0; i < CALLS; i++) asked(8, 1, x, y);
        const double middle = now();
        for (int i = 0; i < CALLS; i++) promised(8, 1, x, y);
        printf("%g %g\\n", (middle - begin) / CALLS, (now() - middle) / CALLS);
    }
}
"""
CALLS = 5_000_000


def measured(rounds: int) -> list[tuple[float, float]]:
    """Nanoseconds per call (asked, promised), for each round."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / "timer.c"]
        files[0].write_text(TIMER)
        for kind, restrict in (("asked", ""), ("promised", "restrict ")):
            made = polydl.optimize(SAXPY.format(name=kind, restrict=restrict), run=False, sizes={"n": 1000})
            assert ("polydl_apart" in made.text) == (kind == "asked")
            files.append(folder / f"{kind}.c")
            files[-1].write_text(made.text)
        flags = ["-O3", "-march=native", "-fopenmp", f"-DROUNDS={rounds}", f"-DCALLS={CALLS}"]
        subprocess.run(["cc", *flags, *map(str, files), "-o", str(folder / "timer")], check=True)
        told = subprocess.run([str(folder / "timer")], check=True, capture_output=True, text=True).stdout
    pairs = (line.split() for line in told.splitlines())
    return [(float(asked), float(promised)) for asked, promised in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    found = measured(parser.parse_args().rounds)
    for name, values in (
        ("not restrict", [asked for asked, _ in found]),
        ("restrict", [promised for _, promised in found]),
        ("the question", [asked - promised for asked, promised in found]),
    ):
        print(f"{name:13} {statistics.median(values):6.2f} ns ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
