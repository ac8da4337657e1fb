"""The command `why`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from polydl.cli import completion


def why(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            show_default=False,
            help="The name in the line `see:` of an error; without it, all names are listed.",
            autocompletion=completion.topics,
        ),
    ] = None,
) -> None:
    """Explain why a program is refused, and what to write instead."""
    from polydl.base.errors import InputError, one_of
    from polydl.base.resources import refused

    paragraphs = refused()
    if topic is None:
        sys.stdout.write("".join(f"{name}\n" for name in paragraphs))
        return
    if topic not in paragraphs:
        raise InputError(f"there is no paragraph '{topic}'", hint=one_of(topic, paragraphs))
    sys.stdout.write(paragraphs[topic] + "\n")
