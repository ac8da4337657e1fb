"""`polydl optimize --cluster`: an output for each kind of machine, and files that travel."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from polydl.target import calibration_path, detect, save
from tests.cli.running import polydl
from tests.cli.test_running import LOOPS, MICROKERNELS, SMALL, microkernel
from tests.cluster.running import Cluster

pytestmark = pytest.mark.few_sizes

pytest.importorskip("distributed", reason="polydl[cluster] is not installed")

HEADER = "#define N 48\n"
SOURCE = """
#include "sizes.h"
#include "../more.h"
void scale(float A[restrict N][N], float B[restrict N][N])
{
#pragma scop
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            A[i][j] = FACTOR * B[i][j];
#pragma endscop
}
"""
QUICK = ("--top-k", "1", "--threads", "1", "--json")


def program(folder: Path) -> Path:
    """A file with headers beside it, in an -I folder and further up; returns the folder to run in."""
    for name in ("work/src", "work/include"):
        (folder / name).mkdir(parents=True)
    (folder / "work/include/sizes.h").write_text(HEADER)
    (folder / "work/more.h").write_text("#define FACTOR 2.0f\n")
    (folder / "work/src/scale.c").write_text(SOURCE)
    return folder / "work"


def another_kind(folder: Path) -> dict[str, str]:
    """The environment of a worker whose machine was calibrated, and so differs from this one."""
    (folder / "polydl/machines").mkdir(parents=True)
    here = detect()
    save(replace(here, frequency_ghz=here.frequency_ghz + 1), calibration_path(here, folder / "polydl/machines"))
    return {"XDG_DATA_HOME": str(folder)}


def test_an_output_for_each_kind(tmp_path: Path, cluster: Cluster) -> None:
    folder = program(tmp_path)
    cluster.worker(XDG_DATA_HOME=str(tmp_path / "none"))
    cluster.worker(**another_kind(tmp_path / "other"))
    words = ("optimize", "src/scale.c", "-I", "include", "--cluster", cluster.address, *QUICK)
    done = polydl(folder, *words, timeout=300)
    assert done.code == 0, done
    documents = json.loads(done.stdout)["machines"]
    fingerprints = [d["machine"]["fingerprint"] for d in documents]
    assert len(set(fingerprints)) == 2
    for document, fingerprint in zip(documents, fingerprints, strict=True):
        assert document["output"] == f"src/scale.polydl.{fingerprint}.c"
        assert f"({fingerprint})" in (folder / document["output"]).read_text()
        assert [v["verified"] for v in document["variants"]] == [True]
    assert not (folder / "src/scale.polydl.c").exists()
    one = polydl(folder, *words, "--for", fingerprints[1][:6], timeout=300)
    assert one.code == 0, one
    document = json.loads(one.stdout)
    assert document["machine"]["fingerprint"] == fingerprints[1]
    assert document["output"] == "src/scale.polydl.c"
    assert str(tmp_path) not in (folder / "src/scale.polydl.c").read_text()
    assert "--for asks for" in one.stderr


def test_a_candidate_that_crashes(tmp_path: Path, cluster: Cluster) -> None:
    """The object file with the microkernel travels too; what calls it crashes, and is dropped with the reason."""
    cluster.worker()
    microkernel(tmp_path, MICROKERNELS["crashes"][0])
    (tmp_path / "loops.c").write_text(LOOPS)
    words = (*SMALL, "--link", str(tmp_path / "micro.o"), "--cluster", cluster.address, "--json")
    done = polydl(tmp_path, "optimize", "loops.c", *words, timeout=300)
    assert done.code == 1, done
    assert {v["status"] for v in json.loads(done.stdout)["variants"]} == {"crashed"}
    assert "no variant computed what the original computes" in done.stderr
    assert not (tmp_path / "loops.polydl.c").exists()
