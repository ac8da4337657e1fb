"""Reading ends: the preprocessor under its limits, and the tokens that are read."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.frontend.text import limited, parse, preprocess

SPIN = "while True: pass"
GREEDY = "x = bytearray(1 << 28)"


def python(text: str) -> list[str]:
    return [sys.executable, "-S", "-c", text]


def test_what_a_command_says_comes_back() -> None:
    text = "import sys; print(sys.stdin.read()[::-1]); sys.stderr.write('no'); sys.exit(3)"
    assert limited.run(python(text), b"abc", 1000) == limited.Done(3, b"cba\n", b"no", False)


def test_output_ends_at_its_limit() -> None:
    done = limited.run(python("import time; time.sleep(0.2); print('x' * 100_000)"), b"", 1000)
    assert done.too_long
    assert len(done.output) == 1000


def test_processor_time_and_memory_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "CPU_SECONDS", 1)
    spun = limited.run(python(SPIN), b"", 1000)
    assert spun.code == -signal.SIGXCPU
    assert spun.too_slow
    monkeypatch.setattr(limited, "MEMORY", 1 << 27)
    done = limited.run(python(f"import time; time.sleep(0.2); {GREEDY}"), b"", 1000)
    assert done.code != 0
    assert b"MemoryError" in done.messages
    assert not done.too_slow


def test_a_command_that_sleeps_is_ended_with_its_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limited, "WALL_SECONDS", 2.0)
    pid = tmp_path / "pid"
    text = (
        "import subprocess, time; p = subprocess.Popen(['sleep', '1000']); "
        f"open({str(pid)!r}, 'w').write(str(p.pid)); time.sleep(1000)"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        limited.run(python(text), b"", 1000)
    child = Path("/proc", pid.read_text(), "stat")
    deadline = time.monotonic() + 20
    while running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(child)


def running(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def bomb(levels: int, text: str) -> str:
    """C of which the macros expand to 2**levels copies of a text."""
    lines = [f"#define M0 {text}", *(f"#define M{n} M{n - 1} M{n - 1}" for n in range(1, levels + 1))]
    return "\n".join(lines) + f"\nvoid f(float A[8]) {{\n#pragma scop\nA[0] = 1; M{levels}\n#pragma endscop\n}}\n"


def test_macros_are_refused_by_the_bytes_that_they_expand_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preprocess, "MOST_EXPANDED", 1 << 20)
    path = tmp_path / "bomb.c"
    path.write_text(bomb(6, "A[0] = 1;"))
    assert len(load(path).scops[0].statements) == 65
    path.write_text(bomb(20, "A[0] = 1;"))
    with pytest.raises(InputErrors, match="longer than 1 MiB"):
        load(path)


def test_macros_that_expand_to_nothing_end_as_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limited, "CPU_SECONDS", 1)
    path = tmp_path / "bomb.c"
    path.write_text(bomb(34, ""))
    with pytest.raises(InputErrors, match="took 1 s of processor time") as caught:
        load(path)
    assert "faster machine" in caught.value.errors[0].hint


def test_too_many_tokens_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "add.c"
    path.write_text("void f(float A[9]) {\n#pragma scop\nfor (int i = 0; i < 9; i++) A[i] += 1;\n#pragma endscop\n}\n")
    assert load(path).scops
    monkeypatch.setattr(parse, "MOST_TOKENS", 30)
    with pytest.raises(InputErrors, match="takes too long"):
        load(path)
