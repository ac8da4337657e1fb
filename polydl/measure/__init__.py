"""Builds, runs in isolation, verifies and times candidates."""

from polydl.measure.compile import Compilation, Diagnostic, check_compiles
from polydl.measure.session import measure
from polydl.measure.values import (
    ORIGINAL,
    Measurement,
    MeasureOptions,
    Progress,
    Report,
    Status,
    Toolchain,
    WorstError,
)

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
