"""C -> model: reads the static control parts of a C file (pycparser after `cc -E`)."""

from __future__ import annotations

from polydl.frontend.load import Program, load

__all__ = ["Program", "load"]
