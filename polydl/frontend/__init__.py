"""C -> model: reads the static control parts of a C file (pycparser after `cc -E`)."""

from __future__ import annotations

from polydl.frontend.load import load, parsed
from polydl.frontend.program import Parsed, Program

__all__ = ["Parsed", "Program", "load", "parsed"]
