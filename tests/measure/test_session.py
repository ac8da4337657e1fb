"""The whole: timing, the winner, tool chain errors, and that an interrupted run leaves nothing."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polydl import load
from polydl.base.errors import ToolchainError
from polydl.lower.emit import Generated
from polydl.measure import (
    Measurement,
    MeasureOptions,
    Report,
    Status,
    Toolchain,
    check_compiles,
    measure,
    session,
)
from polydl.measure.compiler import Compilation, compile_all, find_compiler
from polydl.measure.driver import Place
from polydl.measure.input_data import Buffer, blocks_for, describe_buffers, integer_inputs, integer_range, real_inputs
from polydl.model.layout import row_major
from tests.measure.builders import IKJ, QUICK, array, candidate, matmul

SLOWLY = "for (volatile int d = 0; d < 400000; d++);"


@pytest.mark.timing
def test_faster_wins_slower_does_not() -> None:
    text = matmul().source.text.replace("    for (int i", f"    {SLOWLY}\n    for (int i", 1)
    program = matmul(text=text)
    slower, faster = candidate(SLOWLY + SLOWLY + SLOWLY), Generated((), IKJ)
    report = measure(program, {"slower": slower, "faster": faster}, Toolchain(), QUICK)
    assert [m.status for m in report.measurements] == [Status.VERIFIED] * 2, report
    assert report.best().id == "faster"
    assert report.measurements[0].speedup < 1 < report.measurements[1].speedup
    alone = measure(program, {"slower": slower}, Toolchain(), QUICK)
    assert alone.best().id == "original"


@pytest.mark.timing
def test_cold_samples_are_single_runs_and_slower() -> None:
    # 400 kB that a core's own caches hold, or most of them: from memory the loads alone take several times as long.
    (program,) = load(
        "void f(float y[restrict 50000], const float x[restrict 50000])\n"
        "{\n    for (int i = 0; i < 50000; i++)\n        y[i] = x[i] + 1;\n}\n"
    ).scops
    options = replace(QUICK, threads=1, buffer_sets=1)
    hot, cold = list[float](), list[float]()
    for _ in range(5):  # in turn, and the middle of them: the clock of a virtual machine drifts
        hot.append(min(measure(program, {}, Toolchain(), options).original.samples))
        cold.append(min(measure(program, {}, Toolchain(), replace(options, cold=True)).original.samples))
    assert statistics.median(cold) > statistics.median(hot)


def test_slow_original_is_not_timed_again() -> None:
    program = matmul()
    options = replace(QUICK, slow=1e-9)
    report = measure(program, {"v": Generated((), IKJ)}, Toolchain(), options)
    assert len(report.original.samples) == 1  # the integers alone: equality was exact
    assert len(report.measurements[0].samples) == 1
    assert any("compared on integer-valued inputs only" in warning for warning in report.warnings)
    assert report.noise > 0


def test_progress_and_no_candidates() -> None:
    program, steps = matmul(), list[tuple[str, int, int]]()
    report = measure(program, {}, Toolchain(), QUICK, lambda *step: steps.append(step))
    assert report.measurements == ()
    assert report.best() is report.original
    assert [step for step in steps if step[0] == "compile"][-1] in {("compile", 2, 2), ("compile", 1, 1)}
    assert steps[-1] == ("time", 1, 1)


def report(original: float, *candidates: tuple[str, float], noise: float = 0.05) -> Report:
    def one(name: str, seconds: float) -> Measurement:
        return Measurement(name, Status.VERIFIED, "", (seconds,), seconds, 0.0, original / seconds, undisturbed=seconds)

    failed = Measurement("failed", Status.WRONG)
    timed = tuple(one(*c) for c in candidates)
    return Report(one("original", original), (failed, *timed), noise, 0, 0, 0)


def test_best_needs_more_than_the_noise_and_keeps_the_ranking() -> None:
    assert report(1.0, ("a", 0.5), ("b", 0.4)).best().id == "b"
    assert report(1.0, ("a", 0.41), ("b", 0.4)).best().id == "a"  # within the noise: the earlier
    assert report(1.0, ("a", 0.97)).best().id == "original"
    assert report(1.0, ("a", 0.97), noise=0.01).best().id == "a"
    assert report(1.0, ("a", 1.5)).best().id == "original"
    assert report(1.0).best().id == "original"


def test_best_of_those_within_the_noise_is_the_simplest() -> None:
    made = report(1.0, ("long", 0.4), ("short", 0.41), ("shorter but slower", 0.6))
    lengths = {"long": 900, "short": 300, "shorter but slower": 100}
    sized = replace(made, measurements=tuple(replace(m, length=lengths.get(m.id, 0)) for m in made.measurements))
    assert sized.best().id == "short"
    assert replace(sized, noise=0.01).best().id == "long"


def test_missing_compiler() -> None:
    program = matmul()
    with pytest.raises(ToolchainError) as error:
        measure(program, {}, Toolchain(cc="no-such-compiler; true"), QUICK)
    assert "'no-such-compiler; true' was not found" in error.value.reason
    assert error.value.hint is not None
    assert error.value.exit_code == 1


def test_original_that_crashes_or_hangs_is_an_error() -> None:
    crash = matmul(text=matmul().source.text.replace("for (int i", "*(volatile int *)0 = 1; for (int i"))
    with pytest.raises(ToolchainError, match=r"cannot serve as the reference: it was killed by signal 11"):
        measure(crash, {}, Toolchain(), QUICK)
    hang = matmul(text=matmul().source.text.replace("for (int i", "for (;;); for (int i"))
    with pytest.raises(ToolchainError) as error:
        measure(hang, {}, Toolchain(), replace(QUICK, original_timeout=0.5))
    assert "did not finish within 0.5 s" in error.value.reason
    assert error.value.hint is not None
    assert "--timeout" in error.value.hint


def test_compiler_that_hangs(tmp_path: Path) -> None:
    compiler = tmp_path / "slow cc"
    compiler.write_text("#!/bin/sh\nsleep 1000 &\nwait\n")
    compiler.chmod(0o755)
    program = matmul()
    start = time.monotonic()
    with pytest.raises(ToolchainError, match=r"takes the compiler over 0\.3 s"):
        measure(program, {}, Toolchain(cc=str(compiler)), replace(QUICK, compile_timeout=0.3))
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("object_code", [True, False])
def test_check_compiles(object_code: bool) -> None:
    source = matmul().source
    text = "int f(int x);\nint f(int x) { return x; }\n"
    clean = check_compiles(text, Toolchain(), source, object_code=object_code)
    assert clean.ok
    assert clean.diagnostics == ()
    text = "int f(int x) { int unused; return x; }\n"
    warned = check_compiles(text, Toolchain(), source, object_code=object_code)
    assert warned.ok
    assert [(d.severity, d.line, d.column) for d in warned.diagnostics] == [("warning", 1, 20)]
    assert "-Wunused-variable" in warned.diagnostics[0].message
    text = "int f(int x) { return y; }\n"
    wrong = check_compiles(text, Toolchain(), source, name="my file.c", object_code=object_code)
    assert not wrong.ok
    assert wrong.diagnostics[0].severity == "error"
    assert "'y' undeclared" in wrong.message
    assert wrong.output.startswith("my file.c: In function")


def test_inputs_are_reproducible_and_in_range() -> None:
    buffers = describe_buffers(matmul(), [(4, 0, 0)] * 3)
    first, second = integer_inputs(buffers, 7, 4), integer_inputs(buffers, 7, 4)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert not (first[0] == integer_inputs(buffers, 8, 4)[0]).all()
    assert not (first[0] == first[1]).all()
    assert {float(x) for x in set(first[0].ravel().tolist())} == {1.0, 2.0, 3.0, 4.0}
    reals = real_inputs(buffers, 7, -1, 1)[0].astype("f8")
    assert -1 <= reals.min() < -0.9
    assert 0.9 < reals.max() <= 1


def test_integer_range_keeps_sums_exact() -> None:
    for terms in (1, 1000, 100_000, 10_000_000):
        k = integer_range(terms, ())
        assert 2 <= k <= 4
        assert k == 2 or k**3 * terms < 2**24
    doubles, halves = (
        [Buffer(array("x", 1, ctype=c), row_major([1]), Place.BUFFER, True, True)] for c in ("double", "_Float16")
    )
    assert integer_range(10_000_000, doubles) == 4
    assert integer_range(1000, [*doubles, *halves]) == 2


def test_blocks_touch_a_guard() -> None:
    buffers = describe_buffers(matmul(n=10), [(4, 0, 0)] * 3)
    for flush_end in (False, True):
        offset = 0
        for block in blocks_for(buffers, flush_end=flush_end):
            assert block.bytes == 400
            assert block.file_offset == offset
            assert block.block_bytes % os.sysconf("SC_PAGE_SIZE") == 0
            assert block.data_offset == (block.block_bytes - 400 if flush_end else 0)
            offset += block.block_bytes


CHILD = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background processes inherit it ignored
sys.path[:0] = {path!r}
from collections.abc import Sequence
from dataclasses import replace
import tempfile
from polydl.measure import *
from tests.measure.builders import QUICK, candidate, matmul
tempfile.tempdir = {scratch!r}
program = matmul()
options = replace(QUICK, timeout=1000)
measure(program, {{"hang": candidate("for (;;);")}}, Toolchain(), options, lambda *s: print(*s, flush=True))
"""


def _running(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                executable = os.readlink(process / "exe")  # noqa: PTH115  (may be gone: not a path)
            except OSError:
                continue  # ended, or not ours
            if executable.startswith(str(folder)):
                found.append(int(process.name))
    return found


def _eventually(condition: str, folder: Path, want: bool) -> None:
    for _ in range(300):
        if bool(_running(folder)) == want:
            return
        time.sleep(0.05)
    pytest.fail(condition)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_middle_of_a_run(tmp_path: Path, how: signal.Signals) -> None:
    script = CHILD.format(path=[str(Path.cwd()), *sys.path], scratch=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        while b"compile 3 3" not in process.stdout.readline():
            assert process.poll() is None, process.stderr and process.stderr.read()
        _eventually("the candidate never ran", tmp_path, True)
        time.sleep(1.0)  # past the original, into the candidate that hangs
        assert _running(tmp_path)
        process.send_signal(how)
        process.communicate(timeout=60)
        _eventually("processes are left", tmp_path, False)
        if how is signal.SIGINT:
            assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()


def test_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user has set for other programs does not reach the candidates."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("SECRET", "x")
    prologue = "#include <stdlib.h>\n#include <omp.h>\n"
    check = candidate('if (getenv("SECRET") || omp_get_max_threads() == 1) C[0][0] = 0;', prologue)
    program = matmul()
    found = measure(program, {"v": check}, Toolchain(), QUICK).measurements[0]
    assert found.status is Status.VERIFIED, found.message


def test_temporary_folder_with_odd_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "-a b'\"ü"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    program = matmul()
    found = measure(program, {"v": Generated((), IKJ)}, Toolchain(), MeasureOptions())
    assert found.measurements[0].status is Status.VERIFIED
    assert list(odd.iterdir()) == []


def test_the_original_is_compiled_once_for_the_same_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []

    def counted(jobs: Sequence[Sequence[str | Path]], *rest: Any) -> list[Compilation | None]:
        compiled.append(len([job for job in jobs if "-shared" in job]))
        return compile_all(jobs, *rest)

    monkeypatch.setattr(session, "compile_all", counted)
    options = replace(QUICK, originals={})
    libraries = []
    for name, program, how in (
        ("first", matmul(), options),
        ("again", matmul(), replace(options, seconds=9.0)),
        ("others", matmul(), replace(QUICK, originals={})),
        ("text", matmul(text=matmul().source.text.replace("int i", "long i")), options),
    ):
        (tmp_path / name).mkdir()
        builder = session.Builder(program, Toolchain(), how, find_compiler(Toolchain()), tmp_path / name)
        built, failed = builder.build({"v": Generated((), IKJ)}, lambda stage, done, total: None)
        assert [one.id for one in built] == ["original", "v"]
        assert not failed
        libraries.append((tmp_path / name / "candidate0.so").read_bytes())
    assert compiled == [2, 1, 2, 2]
    assert libraries[0] == libraries[1]
    assert measure(matmul(), {"v": Generated((), IKJ)}, Toolchain(), options).measurements[0].verified
