"""Code for all sizes that is chosen at a dozen of them, in place of hundreds: it is as right."""

from __future__ import annotations

import math
from dataclasses import replace

from polydl.base.effort import Effort

FEW = replace(Effort(), blocks=replace(Effort().blocks, points=8, judging=4))
"""For contractions in blocks."""
FEW_SEARCHED = replace(FEW, searched=replace(Effort().searched, points=12, judging=4), child_seconds=4)
"""For variants that were searched, too."""
EVEN_SLOWER = replace(FEW_SEARCHED, gain=-math.inf)
"""The same, though the original loops be faster."""
