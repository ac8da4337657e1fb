"""Files of loop strings: `polydl rank --loops-file` scores the variants that they name instead of a space.

One variant a line: the loop string, then, after white space, its blocks, which begin with the first word that holds an
equals sign. `#` begins a comment; empty lines are skipped.

    # order, parallel loops     sizes, microkernel
    aBc@schedule(dynamic,1)     c=256;mk=14x32:k
    cAb
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.pipeline import score
from polydl.results import Ranking
from polydl.schedule.notation import Written, split_line
from polydl.search.variant import Variant


@dataclass(frozen=True, slots=True)
class ScoredLines:
    """The scored lines of a file."""

    ranking: Ranking
    """Its variants are in the order of the lines."""
    lines: tuple[tuple[Written, Written], ...]
    """Loop string and blocks of each variant."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Per variant its place by score, 1 for the best; equal scores in the order of the lines."""
        scores = [v.score for v in self.ranking.variants]
        place = {i: rank for rank, i in enumerate(sorted(range(len(scores)), key=lambda i: (scores[i], i)), 1)}
        return tuple(place[i] for i in range(len(scores)))

    def rows(self) -> list[tuple[int, Variant, Written, Written]]:
        """Rank, variant, loop string and blocks, in the order of the file."""
        return [
            (rank, variant, *line)
            for rank, variant, line in zip(self.ranks, self.ranking.variants, self.lines, strict=True)
        ]

    def to_data(self, rank: int, loops: Written, blocks: Written) -> dict[str, Any]:
        """The JSON fields of a scored line that come in addition to those of every variant."""
        return {"rank": rank, "line": loops.line, "loop_string": loops.text, "blocks": blocks.text}


def read(path: Path) -> tuple[tuple[Written, Written], ...]:
    """The loop strings and blocks of a file, with their places. Raises InputError when there are none."""
    try:
        whole = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read {path}: {why}") from error
    found = []
    for number, line in enumerate(whole.splitlines(), 1):
        said = line.partition("#")[0]
        if said.strip():
            found.append(split_line(Written(line, str(path), number).part(0, len(said))))
    if not found:
        raise InputError(f"{path} has no loop string", hint="one per line, its blocks after it: aBc c=8;mk=14x32:k")
    return tuple(found)


def score_file(scop: Scop, path: Path, options: Options) -> ScoredLines:
    """Score each line of a file. Raises InputError(s) with file, line and column of each bad line."""
    lines = read(path)
    return ScoredLines(score(scop, lines, options), lines)
