"""How the fields of a dataclass are written on the command line, stated in the fields themselves.

    threads: int | None = option(None, "Threads of the timed runs.", ("optimize",), metavar="T", least=1)

From these the command line makes its parameters, its completion and its help, and `check` validates a value, whether it
was typed or came from Python.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, cast

from polydl.base.errors import InputError, one_of
from polydl.base.records import dataclass

_KEY = "flag"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """How one field is written on the command line, and which values it may have."""

    help: str
    """What the option does, for people."""
    commands: tuple[str, ...]
    """The commands that take it."""
    names: tuple[str, ...]
    """As typed: `--top-k`, `-k`. None: `--` and the field's name, `--no-` and the name for a switch that is on."""
    metavar: str | None
    """What stands for the value in help texts. None: a word for its type."""
    off: str
    """For a switch that is on by default: what its `--no-` option does."""
    least: int | None
    """The smallest number that is allowed. None: any."""
    words: Callable[[], Iterable[str]] | None
    """The names that the value may be, which shells complete."""
    only_words: bool
    """Whether nothing else than `words` is allowed."""
    suffix: str
    """The ending of the files that the value may name, which shells complete: `.toml`. Empty: it names no file."""
    read: Callable[[Sequence[str]], Any] | None
    """Makes the field's value from the texts of a repeatable option, or from the one text of another; raises
    InputError. None: they are the value."""


def option(
    default: T,
    help: str,  # noqa: A002
    commands: Sequence[str],
    *names: str,
    metavar: str | None = None,
    off: str = "",
    least: int | None = None,
    words: Callable[[], Iterable[str]] | None = None,
    only_words: bool = False,
    suffix: str = "",
    read: Callable[[Sequence[str]], Any] | None = None,
) -> T:
    """A field of a dataclass that is an option, with its default; the rest is what `Flag` says."""
    metadata = {_KEY: Flag(help, tuple(commands), names, metavar, off, least, words, only_words, suffix, read)}
    made: Any
    if isinstance(default, dict):
        made = field(default_factory=default.copy, metadata=metadata)
    else:
        made = field(default=default, metadata=metadata)
    return cast("T", made)


@dataclass(frozen=True, slots=True)
class Option:
    """A field that is an option of the command line."""

    name: str
    """Of the field."""
    type: str
    """The annotation of the field, as text."""
    default: Any
    """The value where the option is not given."""
    flag: Flag

    @property
    def negated(self) -> bool:
        """Whether the option turns off what is on by default."""
        return self.default is True

    @property
    def names(self) -> tuple[str, ...]:
        """As typed, the long name first."""
        dashed = self.name.replace("_", "-")
        return self.flag.names or (f"--no-{dashed}" if self.negated else f"--{dashed}",)

    def value(self, typed: Any) -> Any:
        """The field's value for what the command line holds: a text, a number, a switch, or a list of texts.

        Raises InputError for a text that means nothing.
        """
        if self.flag.read is not None and typed is not None:
            return self.flag.read(typed if isinstance(typed, list) else [typed])
        if isinstance(typed, list):
            return tuple(typed)
        return not typed if self.negated else typed


def options_of(kind: type, command: str | None = None) -> list[Option]:
    """The fields of a dataclass that are options, of one command where it is named, in their order."""
    return [
        Option(f.name, str(f.type), _default(f), f.metadata[_KEY])
        for f in fields(kind)
        if _KEY in f.metadata and command in (None, *f.metadata[_KEY].commands)
    ]


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def by_name(name: str, value: object, *, integers: bool) -> None:
    """Raise InputError unless a value is a mapping from names, to integers where these are meant."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{name} is {value!r}, not values by name", hint=f'give a dict, as {name}={{"n": 1000}}')
    for key, one in value.items():
        if integers and not hasattr(one, "__index__") and not isinstance(one, range):
            raise InputError(f"the size {key} is {one!r}", hint="give an integer, or a range of them")
        if isinstance(one, range) and (one.step != 1 or not 0 <= one.start < one.stop):
            raise InputError(f"the size {key} is {one!r}", hint="give a range from a least to a greatest size")


def check(options: Any) -> None:
    """Compare the values of a dataclass's options with what their flags allow.

    Raises InputError for a value that is not allowed, TypeError for a string where a sequence of strings is meant.
    """
    for one in fields(options):
        if str(one.type).startswith("Mapping"):
            by_name(one.name, getattr(options, one.name), integers=str(one.type) == "Mapping[str, int | range]")
        if isinstance(one.default, tuple) and isinstance(getattr(options, one.name), str):
            raise TypeError(f"{one.name} is a sequence of strings, one for each argument, not one string")
    for known in options_of(type(options)):
        value, allowed = getattr(options, known.name), known.flag
        if allowed.least is not None and value is not None and value < allowed.least:
            raise InputError(f"{known.name} is {value}", hint=f"{known.names[0]} takes {allowed.least} or more")
        if value is None or not allowed.only_words or allowed.words is None:
            continue
        if value not in (words := tuple(allowed.words())):
            raise InputError(f"no {known.name} called '{value}'", hint=one_of(str(value), words))


def definitions(texts: Sequence[str]) -> dict[str, str]:
    """What `-D NAME` and `-D NAME=VALUE` define. Raises InputError."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise InputError(f"-D {text}: not NAME or NAME=VALUE", hint="for example -D N=1024")
        found[name] = value if equals else "1"
    return found


def sizes(texts: Sequence[str], flag: str = "--size") -> dict[str, int | range]:
    """The values in `--size N=V,…`, of which V may be `LEAST..GREATEST`. Raises InputError."""
    found: dict[str, int | range] = {}
    for part in (p for text in texts for p in text.split(",") if p.strip()):
        name, equals, value = (word.strip() for word in part.partition("="))
        least, dots, greatest = value.partition("..")
        number: int | range = 0
        try:
            number = range(int(least, 0), int(greatest, 0) + 1) if dots else int(value, 0)
        except ValueError:
            equals = ""
        if isinstance(number, range) and (not number or number.start < 0):
            wrong = f"{greatest} is below {least}" if not number else f"{least} is below 0"
            raise InputError(f"{flag} {part}: {wrong}", hint="a range goes from a least to a greatest size")
        if not equals or not name.isidentifier():
            raise InputError(f"{flag} {part}: not NAME=INTEGER", hint=f"for example {flag} M=1024,N=512,K=1..4096")
        if found.setdefault(name, number) != number:
            raise InputError(f"{flag}: {name} is {found[name]} and {number}", hint="give each name one value")
    return found


def one_size(texts: Sequence[str]) -> dict[str, int]:
    """The values in `--at N=V,…`. Raises InputError."""
    found = {}
    for name, value in sizes(texts, "--at").items():
        if isinstance(value, range):
            hint = f"name one of these sizes, as --at {name}={value.stop - 1}"
            raise InputError(f"--at {name}={value.start}..{value.stop - 1}: one value is meant", hint=hint)
        found[name] = value
    return found


def seconds(texts: Sequence[str]) -> float | None:
    """The number in `--budget SECONDS`; None for `none`. Raises InputError."""
    (text,) = texts
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        hint = "for example --budget 60; none for no limit"
        raise InputError(f"--budget {text}: not a number of seconds", hint=hint) from None


def files(texts: Sequence[str]) -> dict[str, str]:
    """The files in `--data NAME=FILE.npy`. Raises InputError."""
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name.isidentifier() or not path:
            raise InputError(f"--data {text}: not NAME=FILE.npy", hint="for example --data corner=mesh.npy")
        found[name] = path
    return found


def shell_words(texts: Sequence[str]) -> tuple[str, ...]:
    """The words of texts as a shell separates them: `-O2 -g` is two. Raises InputError."""
    try:
        return tuple(word for text in texts for word in shlex.split(text))
    except ValueError as error:
        raise InputError(f"'{' '.join(texts)}': {error}", hint="every quotation mark needs its partner") from None
