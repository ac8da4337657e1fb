"""What shells complete for the values of options. Nothing heavy is imported before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Completer = Callable[[str], list[str]]
"""From the beginning of a word to the words that it may become."""


def words_or_files(words: Callable[[], Iterable[str]] | None, suffix: str) -> Completer | None:
    """A completer for the given words and for files that end in `suffix`; None where there are neither."""
    if words is None and not suffix:
        return None

    def complete(incomplete: str) -> list[str]:
        found = starting(words() if words is not None else (), incomplete)
        return [*found, *(_files(incomplete, suffix) if suffix else ())]

    return complete


def files(suffix: str) -> Completer:
    """A completer for files that end in `suffix`."""
    return lambda incomplete: list(_files(incomplete, suffix))


def starting(words: Iterable[str], beginning: str) -> list[str]:
    """Those of the words that start so."""
    return [word for word in words if word.startswith(beginning)]


def _files(beginning: str, suffix: str) -> Iterator[str]:
    """The paths that start so: folders, and files with the suffix."""
    folder, _, name = beginning.rpartition("/")
    place = Path(folder or ("/" if beginning.startswith("/") else "."))
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith(name) and (path.is_dir() or path.suffix == suffix):
            shown = beginning[: len(beginning) - len(name)] + path.name
            yield f"{shown}/" if path.is_dir() else shown


def topics(incomplete: str) -> list[str]:
    """The paragraphs about what is refused."""
    from polydl.base.resources import refused

    return starting(refused(), incomplete)
