"""Whatever a candidate does costs that candidate only, is named for what it is, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import pytest

from polydl.lower.emit import Generated
from polydl.measure import Report, Status, Toolchain, driver, measure
from tests.measure.builders import IKJ, QUICK, candidate, matmul

INCLUDES = """
#include <dirent.h>
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
"""
SCRIBBLE = r"""
FILE *maps = fopen("/proc/self/maps", "r");
for (char line[512]; maps && fgets(line, sizeof line, maps);) {
    char *start, *end;
    if (strstr(line, "polydl-control") && sscanf(line, "%p-%p", (void **)&start, (void **)&end) == 2)
        memset(start, 1, end - start);
}
"""
ONCE = "static int runs; if (runs++ > 6)"
CASES: dict[str, tuple[str, Status, str]] = {
    "right": ("", Status.VERIFIED, "bit for bit"),
    "parallel": ("", Status.VERIFIED, "bit for bit"),
    "wrong by one element": ("C[N-1][3] += 1;", Status.WRONG, "C[47][3]"),
    "wrong by one bit": ("union { float f; int i; } u = {C[5][7]}; u.i ^= 1; C[5][7] = u.f;", Status.WRONG, "C[5][7]"),
    "not a number": ("C[2][2] = NAN;", Status.WRONG, "C[2][2] is nan"),
    "writes an input": ("A[1][1] += 1;", Status.WRONG, "'A', which the original only reads"),
    "one past the end": ("(&C[0][0])[N * N] = 1;", Status.OUT_OF_BOUNDS, "directly after the end of array 'C'"),
    "one before the start": ("(&C[0][0])[-1] = 1;", Status.OUT_OF_BOUNDS, "4 bytes before the start of array 'C'"),
    "reads past the end": ("volatile float x = (&B[0][0])[N * N]; (void)x;", Status.OUT_OF_BOUNDS, "array 'B'"),
    "segfault": ("*(volatile int *)8 = 1;", Status.CRASHED, "signal 11"),
    "abort": ('fputs("I give up\\n", stderr); abort();', Status.CRASHED, "I give up"),
    "hang": ("for (volatile int i = 0;; i++);", Status.TIMED_OUT, "did not finish within"),
    "memory bomb": (
        "for (;;) { char *p = malloc(1 << 20); memset(p, 1, 1 << 20); }",
        Status.OUT_OF_MEMORY,
        "more than 256 MiB beside the arrays",
    ),
    "forks and hangs": ("for (int i = 0; i < 3; i++) fork(); for (;;) pause();", Status.TIMED_OUT, "did not finish"),
    "leaves a daemon": (
        "if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); }",
        Status.VERIFIED,
        "",
    ),
    "fork bomb": (
        "for (int i = 0; i < 9; i++) { fork(); setsid(); } for (;;) pause();",
        Status.TIMED_OUT,
        "did not finish",
    ),
    "thread bomb": (
        "pthread_t t; for (long made = 0;; made += !pthread_create(&t, NULL, (void *(*)(void *))pause, NULL));",
        Status.TIMED_OUT,
        "did not finish",
    ),
    "signals everybody": ("if (kill(-1, 0) == 0) C[1][1] = 0;", Status.VERIFIED, "bit for bit"),
    "starts programs": ('if (system("true") == 0) C[1][1] = 0;', Status.VERIFIED, "bit for bit"),
    "divides by zero": ("volatile int one = 1, zero = 0; C[0][0] = one / zero;", Status.CRASHED, "signal 8"),
    "illegal instruction": ("__builtin_trap();", Status.CRASHED, "was killed by signal"),
    "fills the folder": (
        'static char m[1 << 19]; for (char n[] = "a"; *n < 101; ++*n) fwrite(m, 1, sizeof m, fopen(n, "w"));',
        Status.VERIFIED,
        "",
    ),
    "deletes what is in its folder": (
        'DIR *all = opendir("."); for (struct dirent *e; (e = readdir(all));) unlink(e->d_name); closedir(all);',
        Status.VERIFIED,
        "",
    ),
    "closes every descriptor": ("for (int i = 0; i < 256; i++) close(i);", Status.VERIFIED, ""),
    "writes over the harness": (SCRIBBLE, Status.CRASHED, "signal 11"),
    "sleeps": ("sleep(1000);", Status.TIMED_OUT, "did not finish"),
    "prints": ('for (int i = 0; i < 1 << 20; i++) puts("spam");', Status.TOO_MUCH_OUTPUT, "printed more than"),
    "exits": ("exit(0);", Status.EXITED, "exit code 0"),
    "does not compile": ("undeclared_name = 1;", Status.COMPILE_FAILED, "'undeclared_name' undeclared"),
    "does not link": ("void nowhere(void); nowhere();", Status.COMPILE_FAILED, "undefined reference to `nowhere'"),
    "right with two threads only": ("if (omp_get_max_threads() != 2) C[3][4] = 0;", Status.WRONG, "other threads"),
    "imprecise": (
        "for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) C[i][j] = (_Float16)C[i][j];",
        Status.WRONG,
        "(reals)",
    ),
    "stops its supervisor": ("kill(getppid(), SIGSTOP); for (;;) pause();", Status.TIMED_OUT, "did not finish"),
    "kills its group": ("kill(0, SIGKILL);", Status.CRASHED, "signal 9"),
    "overflows its stack": (
        "volatile char big[1 << 26]; for (int i = 0; i < 1 << 26; i += 4096) big[i] = 1;",
        Status.CRASHED,
        "signal 11",
    ),
    "crashes later": (f"{ONCE} abort();", Status.CRASHED, "while timed"),
}
PARALLEL = f"#pragma omp parallel for\n{IKJ}"
RACE = """#pragma omp parallel
{
    static float own[64][N][N];
    const int t = omp_get_thread_num();
    memcpy(own[t], C, sizeof own[t]);
    for (int k = t; k < N; k += omp_get_num_threads())
        for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) own[t][i][j] += A[i][k] * B[k][j];
    #pragma omp barrier
    memcpy(C, own[t], sizeof own[t]);
}"""
"""The sums of all threads but the last one to write are lost, however the threads are scheduled."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Path]:
    folder = tmp_path_factory.mktemp("scratch")
    scop = matmul()
    codes = {name: candidate(code, INCLUDES) for name, (code, _, _) in CASES.items()}
    codes |= {"parallel": Generated((), PARALLEL), "race": Generated((INCLUDES,), RACE)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(driver, "_SUPERVISOR_DELAY", 1.0)
        return measure(scop, codes, Toolchain(), QUICK), folder


@pytest.mark.parametrize("name", CASES)
def test_each_ends_in_its_own_status(outcome: tuple[Report, Path], name: str) -> None:
    report, _ = outcome
    found = next(m for m in report.measurements if m.id == name)
    _, status, words = CASES[name]
    assert found.status is status, found.message
    assert words in found.message
    assert bool(found.samples) == (status is Status.VERIFIED)


def test_race_is_wrong(outcome: tuple[Report, Path]) -> None:
    assert outcome[0].measurements[-1].status is Status.WRONG


def test_order_is_kept_and_original_timed(outcome: tuple[Report, Path]) -> None:
    report, _ = outcome
    assert [m.id for m in report.measurements] == [*CASES, "race"]
    assert len(report.original.samples) >= 3
    assert report.original.speedup == pytest.approx(1.0)
    wrong = next(m for m in report.measurements if m.id == "wrong by one element")
    assert wrong.worst is not None
    assert wrong.worst.indices == (47, 3)
    assert wrong.worst.value == wrong.worst.expected + 1
    assert wrong.max_error == {"C": 1.0}


def test_nothing_is_left(outcome: tuple[Report, Path]) -> None:
    _, folder = outcome
    assert list(folder.iterdir()) == []
    running = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                running.append(os.readlink(process / "exe"))  # noqa: PTH115  (the target is gone: not a path)
            except OSError:
                continue  # ended, or not ours
    assert [exe for exe in running if exe.startswith(str(folder))] == []


def test_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a candidate's run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scop = matmul()

    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "verify":
            raise KeyboardInterrupt

    options = dataclasses.replace(QUICK, timeout=1.0)
    with pytest.raises(KeyboardInterrupt):
        measure(scop, {"right": candidate()}, Toolchain(), options, interrupt)
    assert list(tmp_path.iterdir()) == []
