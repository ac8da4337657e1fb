"""The result of a proof."""

from __future__ import annotations

from typing import Any

from polydl.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Proof:
    """What was shown of a generated file."""

    verdict: str
    """`proved`; `wrong`: it is shown not to be the original; `open`: neither could be shown."""
    proved: tuple[str, ...]
    """What was shown, for people."""
    notes: tuple[str, ...] = ()
    """What differs without being wrong: sums in another order, scalars used again."""
    trusted: tuple[str, ...] = ()
    """Assumptions of the proof."""
    reason: str = ""
    """Of `wrong`: where, with the instances as numbers. Of `open`: what was in the way."""
    seconds: float = 0.0
    """Wall clock."""

    @property
    def holds(self) -> bool:
        return self.verdict == "proved"

    def to_data(self) -> dict[str, Any]:
        """For --json."""
        return {
            "verdict": self.verdict,
            "proved": list(self.proved),
            "notes": list(self.notes),
            "trusted": list(self.trusted),
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """For the output's header and for people."""
        if self.verdict == "open":
            return [f"not proved: {self.reason}"]
        if self.verdict == "wrong":
            return [f"wrong: {self.reason}"]
        shown = [f"proved: {line}" for line in self.proved]
        shown += [f"proved but for this: {line}" for line in self.notes]
        return shown + [f"taken for granted: {line}" for line in self.trusted]
