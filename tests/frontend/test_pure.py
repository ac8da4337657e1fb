"""Functions that the user says are pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from tests.frontend.reading import scop

CODE = """float soft(float x);
void put(float x);
@
void f(float y[9])
{
    for (int i = 0; i < 9; i++)
        y[i] = soft(y[i]);
}
"""
ASSUMED = ("'soft' has no effects and uses its arguments alone",)


def test_without_saying_so_its_effects_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="the effects of the call of 'soft' are unknown"):
        scop(tmp_path, CODE.replace("@", ""))


def test_the_option(tmp_path: Path) -> None:
    assert scop(tmp_path, CODE.replace("@", ""), assume_pure=["soft"]).assumptions == ASSUMED


@pytest.mark.parametrize("pragma", ["#pragma polydl pure(soft)", "#pragma polydl pure(soft, put)"])
def test_the_pragma(tmp_path: Path, pragma: str) -> None:
    assert ASSUMED[0] in scop(tmp_path, CODE.replace("@", pragma)).assumptions


def test_the_pragma_in_the_function_and_beside_a_region(tmp_path: Path) -> None:
    code = CODE.replace("@", "").replace("    for", "#pragma polydl pure(soft)\n#pragma scop\n    for")
    found = scop(tmp_path, code.replace("[i]);\n", "[i]);\n#pragma endscop\n"))
    assert found.assumptions == ASSUMED


def test_a_region_without_calls_assumes_nothing(tmp_path: Path) -> None:
    assert scop(tmp_path, CODE.replace("@", "").replace("soft(y[i])", "2"), assume_pure=["soft"]).assumptions == ()


@pytest.mark.parametrize(
    ("code", "given", "message"),
    [
        (CODE.replace("@", ""), ["sofa"], "'sofa' is no function that is declared here"),
        (CODE.replace("@", "#pragma polydl pure(sofa)"), [], "3:21: error: 'sofa' is no function"),
        (CODE.replace("@", "").replace("soft(y[i])", "put(y[i])"), ["put"], "the effects of the call of 'put'"),
    ],
)
def test_what_cannot_be_pure(tmp_path: Path, code: str, given: list[str], message: str) -> None:
    with pytest.raises(InputErrors) as caught:
        scop(tmp_path, code, assume_pure=given)
    assert any(message in str(error) for error in caught.value.errors)
