"""Without --cluster no network is opened: no socket of any kind, and nothing of Dask is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import EXAMPLES, environment, polydl
from tests.cluster.test_refused import shadowed

FORBID = """
import os, sys

def forbid(event, arguments):
    wanted = event.startswith("socket.") or (event == "import" and arguments[0].partition(".")[0] == "distributed")
    if wanted and event != "socket.gethostname":
        with open(os.environ["OPENED"], "a") as file:
            file.write(event + "\\n")
        raise PermissionError("no network here: " + event)

sys.addaudithook(forbid)
"""
"""Python's audit hooks see every socket that is made, also by what imports _socket itself (PEP 578), in each process
that is started: the hook is in place before anything else is imported, and cannot be taken away."""

SIZES = ("-D", "M=48", "-D", "N=48", "-D", "K=48", "--threads", "2")


def test_the_hook_forbids(tmp_path: Path) -> None:
    more = shadowed(tmp_path / "site", FORBID)
    for code in ("import socket; socket.socket()", "import distributed", "import socket; socket.getaddrinfo('a', 1)"):
        opened = tmp_path / "opened"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(OPENED=str(opened), **more), capture_output=True, check=False
        )
        assert done.returncode != 0
        assert b"no network here" in done.stderr
        assert opened.read_text()
        opened.unlink()


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "matmul.c", *SIZES, "--top-k", "2", "--fresh"),
        ("collect", "--layers", "sizes.csv", "--store", "s.sqlite", "--samples", "2", "--space", "small"),
        ("rank", "matmul.c", *SIZES),
        ("machine",),
    ],
    ids=lambda words: words[0],
)
def test_no_network(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "matmul.c").write_bytes((EXAMPLES / "matmul.c").read_bytes())
    (tmp_path / "sizes.csv").write_text("workload,M,N,K\nmine,16,16,16\n")
    opened = tmp_path / "opened"
    done = polydl(tmp_path, *words, timeout=300, OPENED=os.fspath(opened), **shadowed(tmp_path / "site", FORBID))
    assert done.code == 0, done
    assert not opened.exists(), opened.read_text()
