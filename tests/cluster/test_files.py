"""The files of a program on their way: what is taken along, where it lies there, what options say then."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.cluster.job import machine_to_itself
from polydl.cluster.optimize_job import outputs_for
from polydl.cluster.program_files import options_from_data, options_to_data, pack, unpacked
from polydl.cluster.remote import run_process, version
from polydl.options import Options
from tests.cluster.running import alive, wait

SOURCE = """
#include <math.h>
#include "size.h"
void f(float A[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        A[i] = 1.0f;
#pragma endscop
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program with a header of its own; its folder is the current one."""
    folder = tmp_path / "here"
    (folder / "include").mkdir(parents=True)
    (folder / "include/size.h").write_text("#define N 8\n")
    (folder / "f.c").write_text(SOURCE)
    (folder / "micro.o").write_bytes(b"\x7fELF")
    monkeypatch.chdir(folder)
    return folder


def test_there_and_back(program: Path) -> None:
    link = (str(program / "micro.o"), "micro.o", "-lm")
    options = Options(
        include_dirs=("include", program / "include"), link=link, cflags=(f"-I{program}/include", "-isystem", "/none")
    )
    source = pipeline.load("f.c", options).source
    files = pack(source, options)
    assert set(files) == {str(program / name) for name in ("f.c", "include/size.h", "micro.o")}
    given = json.loads(json.dumps(options_to_data(options)))
    with unpacked(files, str(program)) as root:
        assert Path.cwd() == root / program.relative_to("/")
        assert Path("f.c").read_text() == SOURCE
        there = options_from_data(given, root)
        assert there.include_dirs == ("include", f"{root}{program}/include")
        assert there.link == (f"{root}{program}/micro.o", "micro.o", "-lm")
        assert there.cflags == (f"-I{root}{program}/include", "-isystem", "/none")
        assert pipeline.load("f.c", there).scops[0].sizes["N"] == 8
    assert Path.cwd() == program
    assert not root.exists()


def test_options_stay_what_they_are() -> None:
    options = Options(defines={"N": 4}, sizes={"m": 3}, threads=2, cold=True, loops="ab", timeout=2.5, ranker="trace")
    assert options_from_data(json.loads(json.dumps(options_to_data(options))), Path("/none")) == options


def test_nothing_leaves_the_folder() -> None:
    with pytest.raises(InputError, match="no absolute path"), unpacked({"x.c": ""}, "/"):
        pass
    with unpacked({"/../../x.c": ""}, "/") as root:
        assert [str(p.relative_to(root)) for p in root.rglob("*")] == ["x.c"]


def test_one_output_for_each_kind() -> None:
    source = Path("f.c")
    assert outputs_for(source, None, {("aa", 2)}) == {("aa", 2): Path("f.polydl.c")}
    several = outputs_for(source, "out.c", {("aa", 2), ("bb", 2), ("bb", 4)})
    assert {str(p) for p in several.values()} == {"out.aa.c", "out.bb-2.c", "out.bb-4.c"}


def test_the_version_says_what_the_code_is() -> None:
    assert version() == version()
    assert version().startswith("0.")


def test_one_job_at_a_time_on_a_machine() -> None:
    """A second process cannot take what the first one has, and can afterwards."""
    script = """
import fcntl, os, sys
from polydl.cluster import job
descriptor = os.open(job._LOCKED, os.O_RDONLY)
try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""
    with machine_to_itself():
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7


def test_a_job_that_is_not_wanted_is_ended() -> None:
    """It waits for the machine, which this process has, and so would never end."""
    document = json.dumps({"do": "optimize", "files": {}, "folder": "/", "file": "x.c", "options": {}, "output": "y.c"})
    with machine_to_itself():
        result = run_process(document, lambda: False)
    assert result["exit_code"] == 1
    assert f"exit code {128 + signal.SIGTERM}" in result["error"] or "killed by signal 15" in result["error"]


def test_errors_of_a_job(tmp_path: Path) -> None:
    """An error for people comes back as it was; a fault of polydl with its last lines."""
    options = options_to_data(Options())
    asked = {"do": "optimize", "files": {}, "folder": str(tmp_path), "file": "x.c", "options": options, "output": "y.c"}
    result = run_process(json.dumps(asked), lambda: True)
    assert (result["exit_code"], result["warnings"]) == (2, [])
    assert "x.c" in result["error"]
    result = run_process(json.dumps({"do": "dance"}), lambda: True)
    assert result["exit_code"] == 1
    assert "KeyError: 'dance'" in result["error"]


LEFT_ALONE = """
import os, signal, sys
from pathlib import Path
from tests.cluster.running import Cluster
with Cluster(Path(sys.argv[1])) as cluster:
    worker = cluster.worker()
    print(cluster.scheduler.pid, worker.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_is_gone_with_the_tests(tmp_path: Path) -> None:
    """Also when there was no time to end it: it would disturb everything that is timed afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", LEFT_ALONE, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    processes = [int(word) for word in done.stdout.split()]
    assert len(processes) == 2
    wait(lambda: not any(alive(process) for process in processes))
