"""Processor seconds of `polydl optimize` for ten small functions whose sizes are arguments, stage by stage.

python experiments/small_functions.py                       all of them
python experiments/small_functions.py --no-run --only dot   those with this in their names, nothing timed
python experiments/small_functions.py --before CHECKOUT     another checkout takes turns with this one

Seconds of user and system, of the process and of all that it waited for: they say about the same on a machine that does
other work. `imports` is from the start of Python to the first thing that is read, `again` the same command once more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STAGES = ("imports", "analysis", "compile", "measure", "check", "other sizes", "total", "again")
FUNCTIONS = {
    "dot_of_bytes": "int f(int n, const signed char *restrict x, const signed char *restrict y)\n{ int s = 0;"
    " for (int i = 0; i < n; i++) s += x[i] * y[i]; return s; }",
    "axpy": "void f(int n, float a, const float *restrict x, float *restrict y)\n"
    "{ for (int i = 0; i < n; i++) y[i] += a * x[i]; }",
    "row_sums": "void f(int n, int m, const float A[restrict n][m], float y[restrict n])\n"
    "{ for (int i = 0; i < n; i++) { float s = 0; for (int j = 0; j < m; j++) s += A[i][j]; y[i] = s; } }",
    "transposition": "void f(int n, int m, const float A[restrict n][m], float B[restrict m][n])\n"
    "{ for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) B[j][i] = A[i][j]; }",
    "stencil": "void f(int n, const float x[restrict n], float y[restrict n])\n"
    "{ for (int i = 1; i < n - 1; i++) y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1]; }",
    "histogram": "void f(int n, int m, const int bin[restrict n], int count[restrict m])\n"
    "{ for (int i = 0; i < n; i++) count[bin[i]] += 1; }",
    "matrix_vector": "void f(int n, int m, const float A[restrict n][m], const float x[restrict m],"
    " float y[restrict n])\n"
    "{ for (int i = 0; i < n; i++) { y[i] = 0; for (int j = 0; j < m; j++) y[i] += A[i][j] * x[j]; } }",
    "triangular_product": "void f(int n, int m, const float L[restrict n][n], const float B[restrict n][m],"
    " float C[restrict n][m])\n{ for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { C[i][j] = 0;"
    " for (int k = 0; k <= i; k++) C[i][j] += L[i][k] * B[k][j]; } }",
    "prefix_sum": "void f(int n, const float x[restrict n], float y[restrict n])\n"
    "{ float s = 0; for (int i = 0; i < n; i++) { s += x[i]; y[i] = s; } }",
    "batch_norm_relu": "void f(int n, int m, const float x[restrict n][m], const float a[restrict m],"
    " const float b[restrict m], float y[restrict n][m])\n{ for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {"
    " float v = x[i][j] * a[j] + b[j]; y[i][j] = v > 0 ? v : 0; } }",
}  # fmt: skip
SIZES = {False: {"n": 1_000_000}, True: {"n": 512, "m": 512}}
"""By whether there are two of them."""

# Runs in a process of its own, with the checkout first on its path: each stage without those inside of it.
ONE = """
import json, resource, sys, time
def now():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
import polydl.cli.depfile, polydl.cli.optimize_here
from polydl import cli, pipeline
from polydl.inspect import terminal
from polydl.measure import session
spent, inner = {"imports": now()}, [0.0]
def counted(owner, name, stage):
    work = getattr(owner, name)
    def run(*given, **named):
        begin = now(); inner.append(0.0)
        try: return work(*given, **named)
        finally:
            took = now() - begin
            spent[stage] = spent.get(stage, 0.0) + took - inner.pop(); inner[-1] += took
    setattr(owner, name, run)
for owner, name, stage in ((session.Builder, "build", "compile"), (pipeline, "check_compiles", "compile"),
        (pipeline, "measure", "measure"), (pipeline, "called_beside_source", "check"),
        (pipeline, "_other_sizes", "other sizes"), (pipeline, "optimize", "analysis")):
    counted(owner, name, stage)
try: cli.main()
except SystemExit as ended: status = ended.code
print("\\n" + json.dumps({**spent, "total": now()} if not status else {}))
"""


def measured(name: str, checkout: Path, folder: Path, given: list[str]) -> dict[str, float]:
    """Processor seconds of each stage, of the first run and of the second; none where it failed."""
    source, several = folder / f"{name}.c", "int m" in FUNCTIONS[name]
    source.write_text(FUNCTIONS[name] + "\n", encoding="utf-8")
    sizes = [f"--size={size}={value}" for size, value in SIZES[several].items()]
    command = [sys.executable, "-c", ONE, "optimize", str(source), "-o", str(folder / "out.c"), *sizes, *given]
    own = {"PYTHONPATH": str(checkout), "POLYDL_CACHE": str(folder / "cache"), "XDG_DATA_HOME": str(folder)}
    child: dict[str, Any] = {
        "cwd": folder,
        "env": {**os.environ, **own},
    }  # not here, where Python would find this checkout first
    done = subprocess.run(command, **child, capture_output=True, text=True, check=False)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    before = sum(os.times()[2:4])
    again = [sys.executable, "-m", "polydl", *command[3:]]
    subprocess.run(again, **child, capture_output=True, check=False)
    return {**found, "again": sum(os.times()[2:4]) - before}


def main() -> int:
    """Entry point."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="NAME", help="part of a name")
    options.add_argument("--before", type=Path, metavar="DIR", help="another checkout")
    options.add_argument("--no-run", action="store_true", help="nothing is timed")
    given = options.parse_args()
    checkouts = [*([given.before.resolve()] if given.before else []), ROOT]
    print(f"{'function':32}" + "".join(f"{stage:>12}" for stage in STAGES))
    for name in FUNCTIONS:
        for checkout in checkouts if given.only in name else ():
            with tempfile.TemporaryDirectory(prefix="polydl-small-") as folder:
                row = measured(name, checkout, Path(folder), ["--no-run"] if given.no_run else [])
            shown = name if checkout == ROOT else f"{name} before"
            print(f"{shown:32}" + "".join(f"{row.get(stage, 0.0):12.2f}" for stage in STAGES), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
