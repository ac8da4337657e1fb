"""docs/refused.md: every error of the front end leads to a paragraph of it, and what it recommends is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.base.resources import refused
from polydl.frontend import load
from tests.cli.running import REJECT, polydl
from tests.cli.running import refused as fails

PACKAGE = Path(__file__).parents[1] / "polydl"


def test_every_paragraph_is_led_to_and_every_lead_is_a_paragraph() -> None:
    named: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for value in re.findall(r"topic=([^,)]+)", text):
            named |= set(re.findall(r'"([\w-]+)"', value))
    named |= {"depends-on-data", "not-affine"}  # of polydl.frontend.meaning.affine.NotAffine
    named |= (
        {"schedule-files"} if '"schedule-files"' in (PACKAGE / "exchange" / "schedule_file.py").read_text() else set()
    )
    assert named == set(refused())


@pytest.mark.parametrize("path", sorted(REJECT.glob("*.c")), ids=lambda p: p.stem)
def test_every_refused_construct_has_its_paragraph(path: Path) -> None:
    text = path.read_text()
    with pytest.raises(InputErrors) as caught:
        load(path, strict_alias="// strict_alias" in text, require_sizes="// require_sizes" in text)
    topics = {error.topic for error in caught.value.errors}
    unexplained = {"huge_constant", "include_device", "macro_bomb"}
    assert topics <= ({*refused(), None} if path.stem in unexplained else set(refused())), topics


HEAD = "#include <stdlib.h>\ntypedef struct { float *data; int width; } Image;\n"
CASES = {
    "depends-on-data": (
        "void f(const int *count, float x[100])\n{\n@\n    for (int i = 0; i < *count; i++) x[i] = 0;\n$\n}",
        "void f(const int *m, float x[100])\n{\n    int n = *m;\n@\n    for (int i = 0; i < n; i++) x[i] = 0;\n$\n}",
    ),
    "not-affine": (
        ("void f(int n, int lda, float *A)\n{\n@\n    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)"
        " A[i * lda + j] = 0;\n$\n}"),
        ("void f(int n, int lda, float *A)\n{\n@\n#pragma polydl assume(lda >= n)\n    for (int i = 0; i < n; i++)\n"
        "        for (int j = 0; j < n; j++) A[i * lda + j] = 0;\n$\n}"),
    ),
    "control-flow": (
        "void f(int n, float x[n])\n{\n@\n    for (int i = 0; i < n; i++) { if (i > 9) goto e; x[i] = 0; }\ne:;\n$\n}",
        "void f(int n, float x[n])\n{\n@\n    for (int i = 0; i < n; i++) x[i] = 0;\n$\n}",
    ),
    "integers": (
        "void f(unsigned n, float x[n])\n{\n@\n    for (unsigned i = n - 1; i >= 0; i--) x[i] = 0;\n$\n}",
        "void f(unsigned n, float x[n])\n{\n@\n    for (unsigned i = n; i-- > 0;) x[i] = 0;\n$\n}",
    ),
    "loop-variables": (
        "int f(int m, float x[m])\n{\n@\n    for (m = 0; m < 10; m++) x[m] = 0;\n$\n    return m;\n}",
        "int f(int m, float x[m])\n{\n@\n    for (int i = 0; i < m; i++) x[i] = 0;\n$\n    return m;\n}",
    ),
    "out-of-bounds": (
        "void f(float x[100])\n{\n@\n    for (int i = 0; i <= 100; i++) x[i] = 0;\n$\n}",
        "void f(int n, int x[9])\n{\n@\n#pragma polydl assume(n <= 9)\n  for (int i = 0; i < n; i++) x[i] = 0;\n$\n}",
    ),
    "pointers": (
        "void f(int n, int m, float ***A)\n{\n@\n    for (int i = 0; i < n; i++) A[0][i][0] = 0;\n$\n}",
        ("void f(int n, int m)\n{\n    float (*A)[m] = malloc(sizeof(float[n][m]));\n@\n"
        "    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) A[i][j] = 0;\n$\n    free(A);\n}"),
    ),
    "struct-members": (
        "void f(Image *image)\n{\n@\n    for (int i = 0; i < 9; i++) image[i].data[0] = 0;\n$\n}",
        ("void f(Image *image)\n{\n    float *restrict data = image->data;\n    int width = image->width;\n@\n"
        "    for (int i = 0; i < width; i++) data[i] = 0;\n$\n}"),
    ),
    "calls": (
        ("void axpy8(float, const float *, float *);\nvoid f(float a, const float x[8], float y[8])\n{\n@\n"
        "    axpy8(a, &x[0], &y[0]);\n$\n}"),
        ("void axpy8(float, const float *, float *);\nvoid f(float a, const float x[8], float y[8])\n{\n@\n"
        "#pragma polydl microkernel loops(for (int i = 0; i < 8; i++) y[i] += a * x[i];)\n"
        "    axpy8(a, &x[0], &y[0]);\n$\n}"),
    ),
    "side-effects": (
        "void f(float x[9])\n{\n    int j = 0;\n@\n    for (int i = 0; i < 9; i++) x[i] = i > 3 ? j++ : 0;\n$\n}",
        "void f(float x[9])\n{\n@\n    for (int i = 0; i < 9; i++) x[i] = i;\n$\n}",
    ),
}  # fmt: skip


def write(path: Path, text: str) -> Path:
    path.write_text(HEAD + text.replace("@", "#pragma scop").replace("$", "#pragma endscop") + "\n")
    return path


@pytest.mark.parametrize("topic", CASES)
def test_what_to_write_instead_is_accepted(tmp_path: Path, topic: str) -> None:
    before, after = CASES[topic]
    with pytest.raises(InputErrors) as caught:
        load(write(tmp_path / "before.c", before), require_sizes=False)
    assert {error.topic for error in caught.value.errors} == {topic}
    assert load(write(tmp_path / "after.c", after), require_sizes=False).scops


def test_the_command_prints_paragraphs(tmp_path: Path) -> None:
    assert polydl(tmp_path, "why").stdout.splitlines() == list(refused())
    assert polydl(tmp_path, "why", "overlap").stdout == refused()["overlap"] + "\n"
    assert "did you mean 'integers'?" in fails(tmp_path, "why", "intgers")


def test_the_message_names_command_and_page(tmp_path: Path) -> None:
    write(tmp_path / "in.c", CASES["calls"][0])
    assert fails(tmp_path, "analyze", "in.c").endswith("  see: polydl why calls (docs/refused.md#calls)\n")
