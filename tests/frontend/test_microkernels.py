"""Microkernel pragmas: call form, loop form, contracts."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.model.scop import MicrokernelCall
from tests.frontend.reading import same_map, same_set, scop

HEAD = """
#define B 4
void gemm(const float *a, int lda, const float *b, float *c, long n, float alpha);
void f(float x[restrict 16][8], float y[restrict 8][12], float z[restrict 16][12], float alpha)
{
  int t, r;
#pragma scop
"""
TAIL = "\n#pragma endscop\n}\n"
LOOP_FORM = """
  for (t = 0; t < 16 / B; t++) {
    r = t * B;
#pragma polydl microkernel call(gemm(&x[r][0], 8, \\
                                     y[0], &z[r][0], B * 12 + t, alpha))
    for (int i = r; i < r + B; i++)
      for (int j = 0; j < 12; j++) {
        z[i][j] = 0.0f;
        for (int k = 0; k < 8; k++)
          z[i][j] += alpha * x[i][k] * y[k][j];
      }
  }
"""
CALL_FORM = """
  for (t = 0; t < 16 / B; t++) {
    r = t * B;
#pragma polydl microkernel loops(for (i = r; i < r + B; i++) for (j = 0; j < 12; j++) { \\
      z[i][j] = 0.0f; for (k = 0; k < 8; k++) z[i][j] += alpha * x[i][k] * y[k][j]; })
    gemm(&x[r][0], 8, &y[0][0], &z[r][0], B * 12 + t, alpha);
  }
"""


@pytest.mark.parametrize(("body", "form"), [(LOOP_FORM, "loops"), (CALL_FORM, "call")])
def test_both_forms_mean_the_same(tmp_path: Path, body: str, form: str) -> None:
    found = scop(tmp_path, HEAD + body + TAIL)
    (statement,) = found.statements
    call = statement.body
    assert isinstance(call, MicrokernelCall)
    assert (call.function, call.form) == ("gemm", form)
    assert statement.iterators == ("t",)
    assert same_set(statement.domain, "{ S0[t] : 0 <= t < 4 }")
    assert [inner.iterators for inner in call.inner] == [("t", "i", "j"), ("t", "i", "j", "k")]
    assert [inner.name for inner in call.inner] == ["S0_0", "S0_1"]
    box = "0 <= t < 4 and 4t <= i < 4t + 4 and 0 <= j < 12"
    assert same_set(call.inner[1].domain, f"{{ S0_1[t, i, j, k] : {box} and 0 <= k < 8 }}")
    touched = {(a.array, a.write): a.relation for a in statement.accesses}
    assert set(touched) == {("alpha", False), ("x", False), ("y", False), ("z", False), ("z", True)}
    assert same_map(touched["x", False], "{ S0[t] -> x[i, k] : 0 <= t < 4 and 4t <= i < 4t + 4 and 0 <= k < 8 }")
    assert same_map(touched["y", False], "{ S0[t] -> y[k, j] : 0 <= t < 4 and 0 <= k < 8 and 0 <= j < 12 }")
    assert same_map(touched["z", True], "{ S0[t] -> z[i, j] : 0 <= t < 4 and 4t <= i < 4t + 4 and 0 <= j < 12 }")
    a, lda, b, c, n, alpha = call.arguments
    assert (a.array, b.array, c.array) == ("x", "y", "z")
    assert a.text == "&x[t * 4][0]"
    assert a.subscript is not None
    assert same_map(a.subscript.as_map(), "{ S0[t] -> x[4t, 0] }")
    assert lda.value is not None
    assert n.value is not None
    assert same_map(n.value.as_map(), "{ S0[t] -> [48 + t] }")
    assert (alpha.text, alpha.array, alpha.value) == ("alpha", None, None)


def test_position_around_a_call(tmp_path: Path) -> None:
    body = LOOP_FORM.replace("r = t * B;", "r = t * B; z[t][0] = 1.0f;").replace("\n  }\n", "\n  z[t][1] = 2.0f; }\n")
    found = scop(tmp_path, HEAD + body + TAIL)
    assert [s.position for s in found.statements] == [(0, 0), (0, 1), (0, 2)]
    call = found.statements[1].body
    assert isinstance(call, MicrokernelCall)
    assert [inner.position for inner in call.inner] == [(0, 1, 0, 0), (0, 1, 0, 1, 0)]


def test_linear_arrays_in_a_call(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        void dot(const float *a, float *c);
        void f(const float *restrict x, float *restrict s) {
        #pragma scop
          for (int i = 0; i < 10; i++) {
        #pragma polydl microkernel call(dot(x + i * 32, &s[i]))
            for (int k = 0; k < 32; k++) s[i] += x[i * 32 + k];
          }
        #pragma endscop
        }""",
    )
    call = found.statements[0].body
    assert isinstance(call, MicrokernelCall)
    assert found.arrays["x"].linear
    assert call.arguments[0].subscript is not None
    assert same_map(call.arguments[0].subscript.as_map(), "{ S0[i] -> x[i, 0] }")


@pytest.mark.parametrize(
    ("loops", "call", "message"),
    [
        ("for (j = 0; j < 4; j++) z[t][j] += x[t][j] * y[t][j];", "g(x[t], z[t])", "'y' is touched by the loops"),
        (
            "for (j = 0; j < 4; j++) z[t][j] += x[t][j];",
            "g(x[t], y[t], z[t])",
            "given 'y', which the loops do not touch",
        ),
        ("for (j = 1; j < 4; j++) z[t][j] += x[t][j];", "g(&x[t][1], z[t])", "first element of 'z'"),
        ("for (j = 0; j < 4; j++) z[t][j] += x[t][j];", "g(&x[t + 1][0], z[t])", "first element of 'x'"),
        ("for (j = 0; j < z[0][0]; j++) z[t][j] += x[t][j];", "g(x[t], z[t])", "depends on data"),
    ],
)
def test_contracts(tmp_path: Path, loops: str, call: str, message: str) -> None:
    code = f"for (t = 0; t < 3; t++) {{\n#pragma polydl microkernel loops({loops})\n{call};\n}}"
    with pytest.raises(InputErrors) as caught:
        scop(tmp_path, HEAD + code + TAIL)
    assert any(message in error.reason for error in caught.value.errors)
    assert all(error.span is not None for error in caught.value.errors)
