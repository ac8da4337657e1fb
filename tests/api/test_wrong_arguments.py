"""What Python gets wrong is told as what is wrong in a file is, with the keyword that mends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polydl

SCALE = "void scale(int n, float x[n])\n{\n    for (int i = 0; i < n; i++)\n        x[i] = x[i] * 2;\n}\n"
call: Any = polydl


@pytest.mark.parametrize(
    ("wrong", "reason", "hint"),
    [
        (lambda: call.compile(SCALE, "n=4"), "sizes is 'n=4', not values by name", 'give a dict, as sizes={"n": 1000}'),
        (lambda: call.optimize(SCALE, sizes="n=4"), "sizes is 'n=4', not values by name", "give a dict, as sizes="),
        (lambda: call.load(SCALE, defines=["n"]), "defines is ['n'], not values by name", "give a dict, as defines="),
        (lambda: call.load(SCALE, sizes={"n": 4.0}), "the size n is 4.0", "give an integer"),
        (lambda: call.rank(None), "what is given is of type NoneType, not C", "give the path of a C file, or C as"),
        (lambda: call.optimize(3), "what is given is of type int, not C", "give the path of a C file, or C as"),
        (lambda: call.rank(call.load(SCALE + SCALE, sizes={"n": 4})), "has 2 scops: scale (line 3), scale (line 8)",
         "choose with function=, or take one of `scops`"),
    ],
)  # fmt: skip
def test_arguments(wrong: Callable[[], object], reason: str, hint: str) -> None:
    with pytest.raises(polydl.InputError) as caught:
        wrong()
    assert caught.value.reason.endswith(reason)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)


def test_a_program_with_one_scop_is_ranked_and_explained() -> None:
    program = polydl.load(SCALE, sizes={"n": 100})
    table = polydl.rank(program, "small", "epyc-zen5", threads=1)
    assert table[0].id == polydl.rank(program.scops[0], "small", "epyc-zen5", threads=1)[0].id
    options = polydl.Options(machine="epyc-zen5", space="small", threads=1)
    assert polydl.explain(program, "best", options).variants


def test_complex_numbers_are_not_cast_away() -> None:
    scale = polydl.compile(SCALE, {"n": 4}, optimize=False)
    with pytest.raises(TypeError) as caught:
        scale(np.ones(4, np.complex64))
    assert ".astype" not in str(caught.value)
    assert "the kernel computes with real numbers: pass copies of .real and .imag" in str(caught.value)


def test_a_size_that_is_missing_is_asked_for_in_words_of_python() -> None:
    with pytest.raises(polydl.InputError) as caught:
        polydl.load(SCALE)
    assert 'help: give it, as in sizes={"n": 1000}' in str(caught.value)
    assert ":3:25: error: the size of 'n' is missing" in str(caught.value)
