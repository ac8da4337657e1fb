"""Building, running in isolation, verifying and timing candidates."""

from polydl.measure.compile import Compilation, Diagnostic, check_compiles
from polydl.measure.session import measure
from polydl.measure.unit import original_candidate
from polydl.measure.values import (
    Candidate,
    Measurement,
    MeasureOptions,
    Progress,
    Report,
    Status,
    Toolchain,
    WorstError,
)

__all__ = [
    "Candidate",
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
    "original_candidate",
]
