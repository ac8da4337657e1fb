"""The command `include`."""

from __future__ import annotations

import sys


def include() -> None:
    """Print the folder of polydl.h, for compilers of your own: cc -I"$(polydl include)" FILE.c."""
    from polydl.base.resources import headers

    sys.stdout.write(f"{headers()}\n")
