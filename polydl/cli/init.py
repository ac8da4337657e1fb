"""The command `init`."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

NAME = "example.c"


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", show_default=False, help="Created if it does not exist.")
    ] = Path(),
) -> None:
    """Write a commented example to start from, and print the command to try it with; nothing is overwritten."""
    from polydl.base.errors import InputError
    from polydl.base.resources import headers, templates

    target = folder / NAME
    text = (templates() / NAME).read_bytes()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(text)
    except FileExistsError:
        there = folder if folder.exists() and not folder.is_dir() else target
        raise InputError(f"{there} exists already", hint="name another folder: polydl init DIR") from None
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}", hint="name another folder") from error
    command = ["polydl"] if shutil.which("polydl") else [sys.executable, "-m", "polydl"]
    sys.stdout.write(f"wrote {target}\nheader: {headers() / 'polydl.h'} (bfloat16; polydl finds it, cc with -I)\n")
    sys.stdout.write(f"next: {shlex.join([*command, 'optimize', str(target)])}\n")
