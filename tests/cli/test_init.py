"""`polydl init`: an example that compiles and can be optimized as the message says; nothing is overwritten."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from polydl.base import resources
from tests.cli.running import compile_c, environment, polydl, refused


def test_the_command_that_is_printed_works(tmp_path: Path) -> None:
    outcome = polydl(tmp_path, "init", "start here/now")
    assert outcome.code == 0
    wrote, header, following = outcome.stdout.splitlines()
    assert wrote == "wrote start here/now/example.c"
    assert Path(header.removeprefix("header: ").partition(" (")[0]) == resources.headers() / "polydl.h"
    compile_c(tmp_path, ["start here/now/example.c"], "example.o", "-c", "-Wno-unknown-pragmas")
    command = shlex.split(following.removeprefix("next: "))
    done = subprocess.run(
        [*command, "--no-run", "-o", "out.c"], cwd=tmp_path, env=environment(), capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "polydl" in (tmp_path / "out.c").read_text()


def test_the_pragmas_that_it_explains_are_known(tmp_path: Path) -> None:
    """Each with what it needs around it."""
    assert polydl(tmp_path, "init").code == 0
    text = (tmp_path / "example.c").read_text()
    pragmas = [line.partition("#pragma ")[2].split("  ")[0] for line in text.splitlines() if "*     #pragma" in line]
    assert [p.split("(")[0] for p in pragmas] == [
        "polydl assume", "polydl live_out", "polydl dead", "polydl microkernel call",
    ]  # fmt: skip
    body = "\n".join(f"    #pragma {p}" for p in pragmas[:3])
    (tmp_path / "all.c").write_text(
        "void g(int n, float y[restrict n])\n{\n    float T[8];\n    (void)T;\n#pragma scop\n" + body
        + "\n    for (int i = 0; i < n; i++) { T[i % 8] = i; y[i] = i; }\n#pragma endscop\n}\n"
    )  # fmt: skip
    assert polydl(tmp_path, "analyze", "all.c").code == 0


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "example.c").write_text("mine")
    assert "example.c exists already" in refused(tmp_path, "init")
    assert "example.c exists already" in refused(tmp_path, "init", "example.c")
    assert "cannot write" in refused(tmp_path, "init", "example.c/deeper")
