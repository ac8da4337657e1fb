"""Short timings, for tests that do not judge time: most of what an `optimize` would wait for here is a quiet machine.

The tests share the machine, so that polydl's measurements would be disturbed by design: each would wait for its turn,
time everything three times over, longer each time, and wait for quiet moments in between, which takes four times as
long as the compilers and the runs that say whether the code is right. What is measured stays the same: every variant is
compiled, checked and timed beside the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.measure import MeasureOptions, driver, timing
from polydl.options import Options
from polydl.search import own_times

_measuring, _environment = Options.measuring, driver._clean_environment


def apply(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone."""
    patch.setattr(timing, "_ATTEMPTS", 1)
    patch.setattr(timing, "doubt", lambda busy, noise, drift: "")
    patch.setattr(timing, "timing_turn", _no_turn)
    patch.setattr(timing, "machine_warnings", list)
    patch.setattr(driver, "_clean_environment", _unbound)
    patch.setattr(Options, "measuring", _short)


def trusted(patch: pytest.MonkeyPatch) -> None:
    """Keep the times of runs that other tests disturbed, too, until the patch is undone."""
    keep = own_times.keep
    patch.setattr(
        own_times, "keep", lambda scop, report, *more: keep(scop, replace(report, disturbed=False, untrusted=""), *more)
    )


def applied() -> bool:
    """Whether timings are short now."""
    return Options.measuring is _short


@contextmanager
def _no_turn() -> Iterator[list[str]]:
    yield []


def _unbound(folder: Path, threads: int, *, bind: bool) -> dict[str, str]:
    """Threads that spin on processors of their own would wait for those of other tests there."""
    return _environment(folder, threads, bind=False)


def _short(self: Options, threads: int) -> MeasureOptions:
    return replace(_measuring(self, threads), min_sample=50e-6, budget=5e-3, min_rounds=3, max_rounds=5)
