"""Workers that die at random: `python -m tests.cluster --problems 20 --kills 6`.

Collects small problems on two workers, kills one of them (SIGKILL) again and again at a random moment, each time
starting another, and says whether every problem is in the store once and whole.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from polydl.measure.store import Store
from tests.cluster.running import Cluster, kill, outcome, started


def main(problems: int, kills: int, apart: float, seed: int) -> int:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="polydl-cluster-") as name, Cluster(Path(name)) as cluster:
        folder = Path(name)
        sizes = [f"{8 * (1 + i % 8)},{16 * (1 + i // 8)},16" for i in range(problems)]
        (folder / "sizes.csv").write_text("workload,M,N,K\n" + "".join(f"mine,{size}\n" for size in sizes))
        workers = [cluster.worker(), cluster.worker()]
        words = ("collect", "--layers", "sizes.csv", "--store", "s.sqlite", "--cluster", cluster.address)
        killed = 0
        start = time.monotonic()
        with started(folder, *words, "--samples", "2", "--space", "small", "--threads", "1") as run:
            while run.poll() is None and killed < kills:
                time.sleep(rng.uniform(0.2, 2 * apart))
                if run.poll() is None:
                    victim = workers.pop(rng.randrange(len(workers)))
                    kill(victim.pid)
                    killed += 1
                    workers.append(cluster.worker())
            done = outcome(run)
        with Store(folder / "s.sqlite", read_only=True) as store:
            rows = list(store.rows())
    originals = Counter(r.problem for r in rows if r.variant == "original")
    twice = sum(n - 1 for n in Counter((r.problem, r.variant) for r in rows).values())
    again = done.stderr.count("to be done again")
    right = done.code == 0 and twice == 0 and set(originals) == {size.replace(",", "x") for size in sizes}
    sys.stdout.write(
        f"{problems} problems, {killed} workers killed, {again} problems given back and measured again: exit code "
        f"{done.code}, {len(originals)} problems in the store, {len(rows)} rows, {twice} of them twice, "
        f"{time.monotonic() - start:.0f} s\n"
    )
    if not right:
        sys.stdout.write(done.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--apart", type=float, default=12.0, help="seconds between two kills, in the mean")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(main(given.problems, given.kills, given.apart, given.seed))
