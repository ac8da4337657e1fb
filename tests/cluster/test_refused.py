"""What keeps a cluster from being used, and what is said about it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import EXAMPLES, refused
from tests.cluster.running import Cluster

pytest.importorskip("distributed", reason="polydl[cluster] is not installed")
MATMUL = EXAMPLES / "matmul.c"


def shadowed(folder: Path, text: str) -> dict[str, str]:
    """An environment in which Python runs a text before anything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parents[2]}", "PYTHONDONTWRITEBYTECODE": "1"}


def without(package: str) -> str:
    """A text after which a package cannot be imported."""
    return f"import sys\nsys.modules['{package}'] = None\n"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that says something else than Dask does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:  # closed
                    return
                with peer:
                    peer.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
                    peer.recv(1)

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_nobody_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", f"127.0.0.1:{port}", code=1)
    assert "cannot reach a Dask scheduler at 127.0.0.1:" in shown
    assert "dask scheduler" in shown


def test_no_address(tmp_path: Path) -> None:
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", "head", code=1)
    assert "cannot reach a Dask scheduler at head: missing port" in shown


def test_another_server(tmp_path: Path, silent: str) -> None:
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", silent, code=1)
    assert f"cannot reach a Dask scheduler at {silent}" in shown


def test_not_installed(tmp_path: Path) -> None:
    environment = shadowed(tmp_path / "site", without("distributed"))
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", "tcp://127.0.0.1:1", code=1, **environment)
    assert "pip install 'polydl[cluster]'" in shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--machine", "epyc-zen5"), "--machine and --cluster together"),
        (("--no-run",), "--no-run and --cluster together"),
        (("--depfile", "x.d"), "--depfile and --cluster together"),
    ],
)
def test_contradictions(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", "tcp://127.0.0.1:1", *words)
    assert reason in shown


def test_for_what(tmp_path: Path) -> None:
    assert "--for without --cluster" in refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--for", "abc")


def test_input_is_judged_here(tmp_path: Path) -> None:
    """Faults of the file have their place in it, and nobody is asked."""
    (tmp_path / "bad.c").write_text("void f(int n, float A[n])\n{\n#pragma scop\n    while (n) A[0] = 1;\n")
    assert "bad.c:" in refused(tmp_path, "optimize", "bad.c", "--cluster", "tcp://127.0.0.1:1")


def test_no_workers(tmp_path: Path, cluster: Cluster) -> None:
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", cluster.address, code=1)
    assert "has no workers" in shown
    assert f'dask worker {cluster.address} --resources "timing=1"' in shown


def test_useless_workers(tmp_path: Path, cluster: Cluster) -> None:
    """Workers that offer nothing, have another polydl, or none; they live on."""
    older = "import polydl.base.version\npolydl.base.version.__version__ = '0.0.7'\n"
    workers = [
        cluster.worker(resources=""),
        cluster.worker(**shadowed(tmp_path / "older", older)),
        cluster.worker(**shadowed(tmp_path / "none", without("polydl"))),
    ]
    shown = refused(tmp_path, "optimize", MATMUL, "-o", "x.c", "--cluster", cluster.address, code=1)
    assert 'it has no resource "timing"' in shown
    assert "it has polydl 0.0.7 (" in shown
    assert "install the same" in shown
    assert "it cannot run polydl[cluster]" in shown
    assert all(worker.poll() is None for worker in workers)
