"""Long runs and large arrays: inputs are written once, what is far from the fastest is run as little as can be."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydl.measure import MeasureOptions, Status, Toolchain, loaded, measure, timing, verify
from polydl.measure.allowance import Allowance
from polydl.measure.driver import Place
from polydl.measure.input_data import ROOM, Buffer, blocks_for, read_array
from polydl.measure.measurement import Measurement
from polydl.measure.timing import timed_by_verification
from polydl.measure.verify import Built, Checked, Setting, Trial
from polydl.model.layout import row_major
from tests.measure.builders import QUICK, array, candidate, matmul

OPTIONS = MeasureOptions(threads=1, slow=1.0, budget=0.3)
SETTING = Setting(matmul(), Path("driver"), (), (), 1, OPTIONS, Allowance(math.inf))


def checked(*seconds: float) -> list[Checked]:
    return [Checked(Built(f"v{i}", ""), Measurement(f"v{i}", Status.VERIFIED), s) for i, s in enumerate(seconds)]


def trial(name: str, *seconds: float) -> Trial:
    return Trial(Built(name, ""), None, {}, list(seconds), min(seconds, default=math.inf))


def test_long_runs_far_from_the_fastest_are_not_timed_again() -> None:
    # The original, the fastest, near it, far from it, as far from it but quick, longer than `slow`.
    assert timed_by_verification(checked(0.9, 0.2, 0.35, 0.45, 0.29, 1.1), OPTIONS) == {3, 5}
    assert timed_by_verification(checked(0.04, 0.01, 0.1), OPTIONS) == set()
    assert timed_by_verification(checked(2.0, 0.2), OPTIONS) == {0}


def test_what_is_far_from_one_that_passed_is_left_out() -> None:
    best, near, far = trial("best", 1.5, 1.6), trial("near", 2.9), trial("far", 3.1)
    trials = [far, near, best]
    assert not verify.left_out(SETTING, near, trials)
    assert verify.left_out(SETTING, far, trials)
    assert far.failure is not None
    assert far.failure.status is Status.LEFT_OUT
    assert far.failure.message == "not checked further: it takes 3.1 s per run, 'best' 1.5 s"


@pytest.mark.parametrize(
    ("others", "least"),
    [
        ([trial("not run once more", 1.5)], 1),
        ([trial("one", 1.5, 1.5)], 2),
        ([dataclasses.replace(trial("wrong", 1.5, 1.5), failure=Measurement("wrong", Status.WRONG))], 1),
    ],
)
def test_a_candidate_is_needed_until_faster_ones_have_passed(others: list[Trial], least: int) -> None:
    far = trial("far", 9.0)
    assert not verify.left_out(SETTING, far, [far, *others], least)


def test_quick_runs_are_all_checked() -> None:
    assert not verify.left_out(SETTING, trial("far", 0.9), [trial("best", 0.01, 0.01)])


def test_the_order_is_that_of_the_ranking_then_that_of_the_times() -> None:
    first = [trial("a"), trial("b")]
    assert verify.quickest_first(first) == first
    a, b = trial("a", 3.0), trial("b", 5.0, 2.0)
    assert verify.quickest_first([a, b]) == [b, a]


def test_the_fastest_that_is_right_limits_the_others() -> None:
    wrong = dataclasses.replace(trial("wrong", 0.1), failure=Measurement("wrong", Status.WRONG))
    assert verify.least_seconds(100.0, [trial("not yet"), wrong]) == 100.0
    assert verify.least_seconds(100.0, [trial("not yet"), wrong, trial("right", 3.0)]) == 3.0
    assert verify.candidate_limit(3.0, 60.0) == 17.0


def test_a_slow_candidate_is_run_once() -> None:
    codes = {"slow": candidate("usleep(800000);", "#include <unistd.h>\n"), "right": candidate()}
    found = {m.id: m for m in measure(matmul(), codes, Toolchain(), dataclasses.replace(QUICK, slow=0.3)).measurements}
    assert found["slow"].status is Status.LEFT_OUT
    assert found["slow"].message.startswith("not checked further: it takes ")
    assert found["right"].status is Status.VERIFIED


def test_inputs_are_written_again_only_where_a_run_may_have_changed_them(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    plain = loaded.write_inputs

    def counted(mapping: Any, blocks: Any, inputs: Any) -> None:
        written.append(len(blocks))
        plain(mapping, blocks, inputs)

    monkeypatch.setattr(loaded, "write_inputs", counted)
    buffers = tuple(
        Buffer(array(name, 4), row_major([4]), Place.BUFFER, written=name == "C", live=True) for name in "ABC"
    )
    inputs = [np.arange(4, dtype=np.float32) + i for i in range(3)]
    run = loaded.Run("integers", list(inputs), blocks_for(buffers, flush_end=False), 1)

    def values(data: loaded.Loaded) -> list[list[float]]:
        pairs = zip(run.blocks, buffers, strict=True)
        return [read_array(data.mapping, block, buffer).tolist() for block, buffer in pairs]

    with loaded.loaded(run) as data:
        for changed, trusted, expected in (([2], True, 3), ([0, 2], False, 1), ([], True, 3)):
            data.fresh()
            assert values(data) == [i.tolist() for i in inputs]
            assert written[-1] == expected
            for k in changed:
                plain(data.mapping, [run.blocks[k]], [inputs[k] + 9])
            if trusted:
                data.keep_read(buffers)
        data.fresh()
        assert written[-1] == 1


def test_all_passes_of_a_timing_copy_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = (Buffer(array("A", 4), row_major([4]), Place.BUFFER, written=True, live=True),)
    made: list[int] = []
    plain = timing.real_inputs

    def counted(*given: Any, **more: Any) -> Any:
        made.append(1)
        return plain(*given, **more)

    monkeypatch.setattr(timing, "real_inputs", counted)
    with timing.timing_inputs(dataclasses.replace(SETTING, buffers=buffers)) as data:
        assert not made, "not before a process needs them"
        first = os.pread(data.descriptor(), 16, ROOM)
        assert np.all(np.frombuffer(first, np.float32) >= 0.5)
        assert os.pread(data.descriptor(), 16, ROOM) == first
        assert len(made) == 1
        data.distrust()
        assert os.pread(data.descriptor(), 16, ROOM) == first
        assert len(made) == 2
