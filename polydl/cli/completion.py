"""What shells offer for the values of options. Nothing heavy is imported before it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

OFFERED = 10
"""Variants that are offered by their ids."""


def _matching(words: Iterable[str], begun: str) -> list[str]:
    return [word for word in words if word.startswith(begun)]


def _files(begun: str, suffix: str) -> Iterator[str]:
    """Files that a path which was begun may go on to: folders, and those with the suffix."""
    folder, _, name = begun.rpartition("/")
    place = Path(folder or ("/" if begun.startswith("/") else "."))
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith(name) and (path.is_dir() or path.suffix == suffix):
            shown = begun[: len(begun) - len(name)] + path.name
            yield f"{shown}/" if path.is_dir() else shown


def rankers(incomplete: str) -> list[str]:
    """Names of rankers, and files of weights."""
    from polydl.rank.plugged import installed
    from polydl.rank.rankers import NAMES

    return [*_matching((*NAMES, *installed()), incomplete), *_files(incomplete, ".safetensors")]


def sources(incomplete: str) -> list[str]:
    """C files."""
    return list(_files(incomplete, ".c"))


def schedules(incomplete: str) -> list[str]:
    """Files of schedule trees."""
    return list(_files(incomplete, ".yaml"))


def topics(incomplete: str) -> list[str]:
    """Paragraphs about what is refused."""
    from polydl.base.resources import refused

    return _matching(refused(), incomplete)


def spaces(incomplete: str) -> list[str]:
    """Names of spaces of variants."""
    from polydl.search.space import SPACES

    return _matching(SPACES, incomplete)


def machines(incomplete: str) -> list[str]:
    """Names of presets, and machine files."""
    from polydl.target import preset_names

    return [*_matching(preset_names(), incomplete), *_files(incomplete, ".toml")]


def variants(ctx: typer.Context, incomplete: str) -> list[str]:
    """`best`, `original`, and the ids of the best variants of the file that stands before."""
    from polydl import pipeline
    from polydl.base.errors import PolyDLError
    from polydl.cli.reading import options

    given = {name: value for name, value in ctx.params.items() if value is not None}
    words = ["best", "original"]
    if isinstance(given.get("file"), Path):
        taken = ("ranker", "threads", "space", "machine", "function", "cc")
        try:
            o = options(
                given["file"], given.get("compile_commands"), define=list(given.get("define", [])),
                undefines=list(given.get("undefine", [])), include_dirs=list(given.get("include", [])),
                size=list(given.get("size", [])), **{name: given[name] for name in taken if name in given},
            )  # fmt: skip
            ranking = pipeline.rank(pipeline.only_scop(pipeline.load(given["file"], o)), options=o)
        except PolyDLError:
            return _matching(words, incomplete)  # the command itself will say what is wrong
        words += [variant.id for variant in ranking.variants[:OFFERED]]
    return _matching(words, incomplete)
