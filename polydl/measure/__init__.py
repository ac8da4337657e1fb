"""Builds, runs in isolation, verifies and times candidates."""

from polydl.measure.compiler import Compilation, Diagnostic, check_compiles
from polydl.measure.measurement import (
    ORIGINAL,
    Measurement,
    MeasureOptions,
    Progress,
    Report,
    Status,
    Toolchain,
    WorstError,
)
from polydl.measure.session import measure

__all__ = [
    "ORIGINAL",
    "Compilation",
    "Diagnostic",
    "MeasureOptions",
    "Measurement",
    "Progress",
    "Report",
    "Status",
    "Toolchain",
    "WorstError",
    "check_compiles",
    "measure",
]
