"""Times of own runs: kept, read back, only those of this machine, whatever happens to the file."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import polydl
from polydl.measure.store import Store
from polydl.search import own_times
from polydl.target import preset
from tests.short_timings import trusted

pytestmark = pytest.mark.few_sizes

PRODUCT = """
void product(int n, float C[restrict n][n], const float A[restrict n][n], const float B[restrict n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                C[i][j] += A[i][k] * B[k][j];
}
"""


def optimized(size: int, **more: Any) -> Any:
    (done,) = polydl.optimize(PRODUCT, sizes={"n": size}, space="small", top_k=3, budget=None, **more).scops
    return done


def rows() -> list[Any]:
    with Store(own_times.place(), read_only=True) as store:
        return list(store.rows())


@pytest.fixture(scope="module")
def run() -> Any:
    """A run whose times are not kept."""
    return optimized(32, learn=False)


def keep(run: Any) -> int:
    ranking, report = run.ranking, replace(run.report, disturbed=False, untrusted="")
    toolchain = polydl.Options().toolchain()
    return own_times.keep(ranking.program.read, report, ranking.variants, ranking.machine, ranking.threads, toolchain)


@pytest.fixture
def kept(run: Any) -> Any:
    """A run whose times are kept."""
    assert keep(run) > 1
    return run


def test_a_run_is_kept_and_the_next_one_is_corrected(monkeypatch: pytest.MonkeyPatch, kept: Any) -> None:
    timed = [m for m in kept.report.measurements if m.verified]
    assert kept.correction is None
    assert [(row.variant, row.samples) for row in rows()] == [(m.id, m.samples) for m in timed]
    found = own_times.learned(kept.ranking.machine)
    assert found is not None
    assert (found.problems, found.variants) == (1, len(timed))
    trusted(monkeypatch)
    second = optimized(24)
    assert second.correction is not None
    assert second.correction.id == found.id
    assert any(f"correction {found.id}" in line for line in second.described)
    assert len(rows()) > len(timed)


def test_no_learn_neither_keeps_nor_uses_times(kept: Any) -> None:
    before = rows()
    without = optimized(24, learn=False)
    assert without.correction is None
    assert not any("correction" in line for line in without.described)
    assert rows() == before


def test_what_is_written_without_a_run_is_the_best_estimate_as_ever(kept: Any) -> None:
    assert optimized(32, run=False).chosen.id == kept.ranking.variants[0].id


def test_times_of_other_machines_count_for_nothing(kept: Any) -> None:
    machine = kept.ranking.machine
    assert own_times.learned(preset("epyc-zen5")) is None
    found = own_times.learned(machine)
    with Store(own_times.place()) as store:
        store.add_machine("another", "")
        store.add([msgspec.structs.replace(row, machine="another", median=row.median * 9) for row in rows()])
    again = own_times.learned(machine)
    assert found is not None
    assert again is not None
    assert again.id == found.id


def test_a_damaged_store_is_told_of_and_counts_as_empty(kept: Any) -> None:
    path = own_times.place()
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    path.write_bytes(b"no database" * 500)
    with pytest.warns(UserWarning, match=r"is not used: .*--forget"):
        assert own_times.learned(kept.ranking.machine) is None
    with pytest.warns(UserWarning, match="are not kept"):
        assert keep(kept) == 0
    assert own_times.forget() == 0
    assert not path.exists()
    assert own_times.learned(kept.ranking.machine) is None


def test_a_recipe_of_another_version_is_told_of(kept: Any) -> None:
    with Store(own_times.place()) as store:
        store.add([msgspec.structs.replace(rows()[0], variant="newer", recipe="[{}]")])
    with pytest.warns(UserWarning, match="is not used"):
        assert own_times.learned(kept.ranking.machine) is None


def test_no_place_to_keep_times_is_told_of_and_nothing_else(monkeypatch: pytest.MonkeyPatch, kept: Any) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null")
    with pytest.warns(UserWarning, match="are not kept"):
        assert keep(kept) == 0


def test_several_processes_keep_times_at_once(kept: Any, tmp_path: Path) -> None:
    """Each adds rows of its own; none is lost, and readers see whole transactions."""
    text = (
        "import sys, msgspec\n"
        "from polydl.measure.store import Store\n"
        "with Store(sys.argv[1], read_only=True) as store: (first, *_) = store.rows()\n"
        "with Store(sys.argv[1]) as store:\n"
        "    for k in range(20):\n"
        "        store.add([msgspec.structs.replace(first, variant=f'{sys.argv[2]} {k}')])\n"
    )
    before = len(rows())
    words = [sys.executable, "-c", text, str(own_times.place())]
    running = [subprocess.Popen([*words, str(number)]) for number in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while any(one.poll() is None for one in running):
            own_times.learned(kept.ranking.machine)
    assert [one.returncode for one in running] == [0, 0, 0]
    assert len(rows()) == before + 60
    assert own_times.forget() == before + 60
    assert not own_times.place().exists()
