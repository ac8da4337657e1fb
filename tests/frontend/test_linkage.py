"""`extern "C"` without a condition on `__cplusplus`: the region in it is C."""

from __future__ import annotations

from pathlib import Path

import polydl
from polydl.frontend.text.linkage import as_c
from tests.compiling import run_compiler

CODE = """// extern "C" {
#include <cstddef>
#include <cmath>
#ifdef __cplusplus
extern "C" {
#endif
void g(int);
#ifdef __cplusplus
}
#endif
extern "C" {
void axpy(int n, float a, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] += a * x[i]; /* } */
}
}
extern "C" void twice(int n, double *x) { for (int i = 0; i < n; i++) x[i] = 2 * x[i]; }
const char *s = "extern \\"C\\" {";
"""


def test_the_text_as_c() -> None:
    found = as_c(CODE)
    assert len(found) == len(CODE)
    lines, before = found.split("\n"), CODE.split("\n")
    changed = [number for number, (one, two) in enumerate(zip(lines, before, strict=True), 1) if one != two]
    assert changed == [11, 15, 16]
    assert lines[10].strip() == lines[14].strip() == ""
    assert lines[15].split()[:2] == ["extern", "void"]
    assert as_c("int x;") == "int x;"
    assert as_c('extern "C" {') == as_c('extern "C" {')


def test_it_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "k.cc"
    path.write_text(CODE)
    done = polydl.optimize(path, tmp_path / "out.cc", sizes={"n": 1000}, run=False)
    assert [one.ranking.scop.function for one in done.scops] == ["axpy", "twice"]
    text = (tmp_path / "out.cc").read_text()
    assert text.count('extern "C"') == CODE.count('extern "C"')
    run_compiler(["c++", "-fsyntax-only", "-march=native", "-w", tmp_path / "out.cc"])
