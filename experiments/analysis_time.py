"""Time of the front end and of ranking (dependences, schedules, cost models) for the corpus of affine programs.

python experiments/analysis_time.py [--only NAME]… [--json FILE]

Every program is read and ranked, with nothing compiled or run, for the sizes called `bench` in
tests/programs/catalogue.toml, in a process of its own, so that none finds isl's or Python's caches warm. Seconds of
processor time of the process and its children, without starting Python; the front end runs the C preprocessor, whose
time counts.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

from output import commit, machine

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.programs.corpus import catalogue  # noqa: E402

ONE = """
import json, os, sys
from polydl import pipeline
from polydl.options import Options
def now():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system
path, defines, sizes = json.loads(sys.argv[1])
o = Options(defines=defines, sizes=sizes)
o.target()
begin = now()
program = pipeline.load(path, o)
front = now() - begin
begin = now()
rankings = [pipeline.rank(scop, options=o) for scop in program.scops]
print(json.dumps({
    "front_end": front,
    "ranking": now() - begin,
    "statements": sum(len(scop.statements) for scop in program.scops),
    "given_up": [reason for ranking in rankings for reason in ranking.given_up],
}))
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", metavar="NAME", action="append")
    options.add_argument("--json", type=Path, metavar="FILE")
    given = options.parse_args()
    rows = []
    for entry in catalogue().values():
        if given.only is not None and entry.name not in given.only:
            continue
        values = entry.bench or entry.sizes[0]
        asked = json.dumps([str(entry.path), entry.defines(values), entry.parameters(values)])
        done = subprocess.run([sys.executable, "-c", ONE, asked], capture_output=True, text=True, check=True, cwd=ROOT)
        row = {"name": entry.name, **json.loads(done.stdout.splitlines()[-1])}
        rows.append(row)
        print(
            f"{entry.name:20s} {row['statements']:3d} statements  front end {1e3 * row['front_end']:6.0f} ms"
            f"  ranking {row['ranking']:6.2f} s  {'; '.join(row['given_up'])[:90]}",
            flush=True,
        )
    for what in ("front_end", "ranking"):
        worst = max(rows, key=lambda row: row[what])
        print(f"longest {what}: {worst[what]:.3f} s ({worst['name']})")
    if given.json:
        found = {"machine": machine(), "commit": commit(), "command": shlex.join(sys.argv), "rows": rows}
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
