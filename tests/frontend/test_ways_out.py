"""Errors name the way out: the option that is missing, in the words of who asks."""

from __future__ import annotations

import pytest

import polydl
from polydl.base.errors import InputErrors
from polydl.base.flags import options_of
from polydl.base.keywords import in_python
from polydl.options import Options

STEPS = """\
void f(int n, float x[n])
{
    for (int t = 0; t < T; t++)
        for (int i = 0; i < n; i++)
            x[i] = x[i] * factor;
}
"""


def test_an_undeclared_name_names_the_macro_to_define() -> None:
    with pytest.raises(InputErrors) as caught:
        polydl.load(STEPS)
    (bound,) = caught.value.errors
    assert bound.span is not None
    assert (bound.span.line, bound.span.column) == (3, 25)
    assert bound.hint == "if it is a macro, define it, as in -D T=1000; or is a header missing (-I)?"
    with pytest.raises(InputErrors) as caught:
        polydl.load(STEPS, defines={"T": 3})
    (value,) = caught.value.errors
    assert value.span is not None
    assert (value.span.line, value.span.column) == (5, 27)
    assert value.hint is not None
    assert value.hint.startswith("if it is a macro, define it, as in -D factor=1000")


def test_a_macro_for_a_parameter_names_the_option_for_sizes() -> None:
    with pytest.raises(InputErrors) as caught:
        polydl.load(STEPS, defines={"n": 512})
    (error,) = caught.value.errors
    assert error.span is not None
    assert (error.span.line, error.span.column) == (1, 12)
    assert error.reason == "this is not C that can be read: the macro 'n' puts '512' here, where C has a name"
    assert error.hint == "if 'n' is a variable, do not define it: --size n=512 tunes for its value"
    assert "help: if 'n' is a variable, do not define it: sizes={\"n\": 512} tunes for its value" in str(error)
    assert "--size n=512" in error.render()


@pytest.mark.parametrize("option", options_of(Options), ids=lambda option: option.name)
def test_python_calls_an_option_by_its_keyword(option: object) -> None:
    (known,) = [one for one in options_of(Options) if one == option]
    value = "False" if known.negated else ""
    assert in_python(f"try {known.names[0]} instead") == f"try {known.name}={value} instead"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("give sizes with -D or --size", "give sizes with defines= or sizes="),
        ("as in -D T=1000; or (-I)?", 'as in defines={"T": 1000}; or (include_dirs=)?'),
        ("--no-run ranks without it", "run=False ranks without it"),
        ("libraries are named as -lNAME, see -fPIC", "libraries are named as -lNAME, see -fPIC"),
        ("--i and i-- stay C, as a - b", "--i and i-- stay C, as a - b"),
    ],
)
def test_hints_in_python(typed: str, said: str) -> None:
    assert in_python(typed) == said
