"""Chooses among the variants that were measured: by their times or, where these say nothing, by the estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polydl.measure import Report
from polydl.search.variant import Variant

_SLOWER = 1.5
"""A variant whose quickest sample takes so many times as long as the original's is not chosen by its estimate: what
others do lengthens samples, the quickest the least."""


def choose(report: Report, measured: Sequence[Variant], ranked: Sequence[Variant]) -> Variant | None:
    """The variant for the output; None: the original.

    It is the one that the times show to be faster (`Report.best`). Where there is none and the times are not to be
    trusted (`Report.untrusted`), it is the one with the best estimate of those that computed what the original
    computes and are not far slower in their quickest samples, unless the program as it is written, which is one of
    those `ranked`, has a better one.
    """
    best = report.best()
    chosen = next((v for v in measured if v.id == best.id), None)
    if chosen is not None or not report.untrusted:
        return chosen
    slow = _SLOWER * min(report.original.samples, default=math.inf)
    verified = {m.id for m in report.measurements if m.verified and min(m.samples, default=0.0) < slow}
    as_written = min((v.score for v in ranked if v.as_written), default=math.inf)
    usable = [v for v in measured if v.id in verified and v.score < as_written]
    return min(usable, key=lambda v: v.score, default=None)
