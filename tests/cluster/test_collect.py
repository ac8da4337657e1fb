"""`polydl collect --cluster`: a real scheduler, workers that die, a user who has had enough."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from polydl.measure.store import Store
from tests.cli.running import Outcome
from tests.cluster.running import Cluster, alive, children, job_of, jobs, kill, outcome, started, wait

pytest.importorskip("distributed", reason="polydl[cluster] is not installed")
pytestmark = pytest.mark.timing

SIZES = ("16x16x16", "24x32x16", "32x32x32")
FEW = ("--samples", "2", "--space", "small", "--threads", "1")


def listed(tmp_path: Path) -> Path:
    path = tmp_path / "sizes.csv"
    path.write_text("workload,M,N,K\n" + "".join(f"mine,{s.replace('x', ',')}\n" for s in SIZES))
    return path


def command(tmp_path: Path, cluster: Cluster) -> tuple[str | Path, ...]:
    Store(tmp_path / "s.sqlite").close()  # there from the beginning, so that it can be looked into at any time
    return ("collect", "--layers", listed(tmp_path), "--store", "s.sqlite", "--cluster", cluster.address, *FEW)


def complete(tmp_path: Path) -> dict[str, int]:
    """Rows of each problem in the store, none of them twice, each problem whole: with its original."""
    with Store(tmp_path / "s.sqlite", read_only=True) as store:
        rows = list(store.rows())
    keys = Counter((r.problem, r.threads, r.variant, r.machine) for r in rows)
    assert set(keys.values()) <= {1}
    assert {r.problem for r in rows} == {r.problem for r in rows if r.variant == "original"}
    assert all(r.verified and r.median for r in rows)
    return Counter(r.problem for r in rows)


def stored(tmp_path: Path) -> int:
    """Problems in the store."""
    with Store(tmp_path / "s.sqlite", read_only=True) as store:
        return sum(1 for row in store.rows() if row.variant == "original")


def finished(tmp_path: Path, cluster: Cluster) -> Outcome:
    with started(tmp_path, *command(tmp_path, cluster)) as run:
        return outcome(run)


def test_a_worker_is_killed(tmp_path: Path, cluster: Cluster) -> None:
    """Two workers, one killed while it measures: the other does its problem again, all are in the store once. The two
    are on one machine, so they never measure at the same time."""
    workers = [cluster.worker(), cluster.worker()]
    with started(tmp_path, *command(tmp_path, cluster)) as run:
        wait(lambda: stored(tmp_path) >= 1 or run.poll() is not None)
        victim, job = job_of(workers)
        kill(victim.pid)
        wait(lambda: not alive(job))
        left = [path.name for path in cluster.folder.glob("polydl-job-*")]
        most = 0
        while run.poll() is None:
            most = max(most, len(jobs(workers)))
            time.sleep(0.02)
        done = outcome(run)
    assert done.code == 0, done
    assert "to be done again" in done.stderr
    assert len(left) <= 1, "at most that of the worker that goes on"
    found = complete(tmp_path)
    assert set(found) == set(SIZES)
    assert min(found.values()) > 1
    assert most == 1
    again = finished(tmp_path, cluster)
    assert again.code == 0, again
    assert "0 variants of 0 problems" in again.stderr
    assert complete(tmp_path) == found


def test_interrupted_and_crashing(tmp_path: Path, cluster: Cluster) -> None:
    """Ctrl-C: what was done is kept and whole, and nothing goes on at the worker. Then the process of one problem is
    killed: it is reported and left out, the worker does the others."""
    worker = cluster.worker()
    with started(tmp_path, *command(tmp_path, cluster)) as run:
        wait(lambda: stored(tmp_path) >= 1 or run.poll() is not None)
        job_of([worker])
        run.send_signal(signal.SIGINT)
        done = outcome(run)
    assert done.code == 130, done
    assert "interrupted: " in done.stderr
    wait(lambda: not children(worker.pid))
    before = complete(tmp_path)
    assert len(before) == 1
    with started(tmp_path, *command(tmp_path, cluster)) as run:
        kill(job_of([worker])[1])
        rest = outcome(run)
    assert rest.code == 1, rest
    assert "killed by signal 9" in rest.stderr
    after = complete(tmp_path)
    assert len(after) == len(SIZES) - 1
    assert {name: after[name] for name in before} == before


def test_the_scheduler_is_killed(tmp_path: Path, cluster: Cluster) -> None:
    """The run ends soon, and so does what the worker was doing."""
    worker = cluster.worker()
    with started(tmp_path, *command(tmp_path, cluster)) as run:
        _, job = job_of([worker])
        kill(cluster.scheduler.pid)
        done = outcome(run)
    assert done.code == 1, done
    assert "went away" in done.stderr, done
    assert complete(tmp_path) == {}
    wait(lambda: not alive(job))
