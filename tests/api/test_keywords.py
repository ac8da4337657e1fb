"""The keywords of the Python API, as type checkers know them, are the fields of `Options`."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from polydl import options
from polydl.base.errors import InputError
from polydl.base.flags import options_of
from polydl.cli import app
from polydl.options import SPACES, CompileChanges, OptionChanges, Options, RankChanges

MARK = "`pytest tests/api/test_keywords.py --update-golden` writes it anew.\n"
PARAMETERS = {"RankChanges": ("space", "machine", "ranker"), "CompileChanges": ("sizes",)}
"""Class -> the fields that functions with its keywords take as parameters of their own."""


def source() -> str:
    """The classes as Python: the common keywords once, the others in the class that adds them."""
    types = {f.name: str(f.type) for f in fields(Options)}
    apart = {name for names in PARAMETERS.values() for name in names}
    rank, compile_ = ([n for n in types if n in apart and n not in PARAMETERS[kind]] for kind in PARAMETERS)

    def body(names: Iterable[str]) -> str:
        return "".join(f"    {name}: {types[name]}\n" for name in names)

    return (
        "\n\nclass CommonChanges(TypedDict, total=False):\n"
        '    """The keywords that every function takes."""\n\n' + body(n for n in types if n not in apart) + "\n\n"
        "class RankChanges(CommonChanges, total=False):\n"
        '    """The keywords of `rank`, of which some fields are parameters."""\n\n' + body(rank) + "\n\n"
        "class CompileChanges(CommonChanges, total=False):\n"
        '    """The keywords of `compile`, of which some fields are parameters."""\n\n' + body(compile_) + "\n\n"
        "class OptionChanges(CompileChanges, RankChanges, total=False):\n"
        '    """All keywords."""\n'
    )


def test_they_are_made_from_the_fields(request: pytest.FixtureRequest) -> None:
    path = Path(options.__file__)
    before, mark, found = path.read_text(encoding="utf-8").partition(MARK)
    assert mark
    if request.config.getoption("--update-golden"):
        path.write_text(before + mark + source(), encoding="utf-8")
    else:
        assert found == source(), "run pytest with --update-golden"


def test_no_keyword_is_missing_or_twice() -> None:
    every = {f.name for f in fields(Options)}
    assert set(OptionChanges.__annotations__) == every
    for kind, name in ((RankChanges, "RankChanges"), (CompileChanges, "CompileChanges")):
        assert set(typing.get_type_hints(kind)) == every - set(PARAMETERS[name])


def test_every_command_that_an_option_names_is_there() -> None:
    commands = set(typer.main.get_group(app).commands)
    for option in options_of(Options):
        assert option.flag.commands and set(option.flag.commands) <= commands, option.name
        assert option.flag.help[0].isupper() and option.flag.help.endswith("."), option.name
        assert bool(option.flag.off) is option.negated, option.name


def test_the_spaces_are_those_of_the_search() -> None:
    from polydl.schedule import limits

    assert tuple(limits.SPACES) == SPACES


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("top_k", 0, "--top-k takes 1 or more"),
        ("threads", 0, "--threads takes 1 or more"),
        ("seed", -1, "--seed takes 0 or more"),
        ("timeout", 0.0, "--timeout takes a positive number of seconds"),
        ("space", "widee", "did you mean 'wide'? choose one of small, default, wide"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_the_option_that_sets_it(
    name: str, value: object, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        Options(**{name: value})  # type: ignore[arg-type]
    assert caught.value.hint == hint
