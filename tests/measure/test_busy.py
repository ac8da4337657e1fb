"""One timing at a time on a machine, and an eye on who else uses it."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from polydl.measure import busy


def _hold(connection: multiprocessing.connection.Connection) -> None:
    with busy.timing_turn():
        connection.send("mine")
        connection.recv()


def test_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(busy, "_LOCKED", tmp_path)  # apart from whatever else runs on this machine
    monkeypatch.setattr(busy, "_LONGEST_WAIT", 0.2)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    other = context.Process(target=_hold, args=(theirs,))
    other.start()
    try:
        assert ours.recv() == "mine"
        start = time.monotonic()
        with busy.timing_turn() as warnings:
            assert warnings == ["another polydl was timing at the same time"]
        assert time.monotonic() - start >= 0.2
    finally:
        other.kill()  # a holder that dies gives its turn back
        other.join()
    with busy.timing_turn() as warnings:
        assert warnings == []


def test_no_sysfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(busy, "_LOCKED", tmp_path / "missing")
    with busy.timing_turn() as warnings:
        assert len(warnings) == 1
        assert "missing" in warnings[0]


@pytest.mark.parametrize(("used", "warned"), [(0.0, False), (0.01, False), (1.0, True)])
def test_load_of_others(monkeypatch: pytest.MonkeyPatch, used: float, warned: bool) -> None:
    """`used` processor seconds during the probe, on one processor."""
    readings = iter([100.0, 100.0 + used * busy._IDLE_PROBE])
    monkeypatch.setattr(busy, "_busy_seconds", lambda: next(readings))
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 1)
    assert bool(busy.machine_warnings()) == warned


@pytest.mark.parametrize(("used", "own", "warned"), [(5.0, 4.9, False), (5.0, 0.0, True), (0.05, 0.0, False)])
def test_load_of_others_meanwhile(monkeypatch: pytest.MonkeyPatch, used: float, own: float, warned: bool) -> None:
    """`used` processor seconds in two seconds of one processor, of which `own` were ours."""
    busy_readings, own_readings, times = iter([100.0, 100.0 + used]), iter([7.0, 7.0 + own]), iter([0.0, 2.0])
    monkeypatch.setattr(busy, "_busy_seconds", lambda: next(busy_readings))
    monkeypatch.setattr(busy, "_own_seconds", lambda: next(own_readings))
    monkeypatch.setattr(busy.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 1)
    found = busy.Others().warnings()
    assert bool(found) == warned
    assert not found or "other programs used" in found[0]


def test_processor_seconds_grow() -> None:
    before = busy._busy_seconds()
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert busy._busy_seconds() >= before + 0.05
