"""Colours, shapes and names of variants, the same in all charts."""

from __future__ import annotations

import math

from polydl.inspect.report.charts import Entry, Shape, quantity
from polydl.inspect.report.record import ORIGINAL, Measured, ScopRun

_ORIGINAL, _CHOSEN, _OTHER = 2, 1, 0
"""Colours."""


def median(found: Measured) -> float:
    return found.median or math.nan


def look(scop: ScopRun, variant: Measured) -> tuple[int, Shape]:
    """Colour and shape of a variant in all the charts."""
    if variant.id == scop.chosen:
        return _CHOSEN, "diamond"
    return (_ORIGINAL, "square") if variant.id == ORIGINAL else (_OTHER, "circle")


def said_of(scop: ScopRun, variant: Measured) -> str:
    also = " (chosen)" if variant.id == scop.chosen else ""
    return f"{variant.id}{also}: {quantity(median(variant), 's')}"


def legend_of(scop: ScopRun) -> tuple[Entry, ...]:
    found = [Entry("measured variant", _OTHER, "circle")]
    if scop.chosen != ORIGINAL:
        found.append(Entry("chosen", _CHOSEN, "diamond"))
        found.append(Entry("original", _ORIGINAL, "square"))
    else:
        found.append(Entry("original (chosen)", _CHOSEN, "diamond"))
    return tuple(found)
