"""Which rows of A a microkernel asks for ahead of time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polydl import pipeline
from polydl.lower.emit import generate
from polydl.lower.kernel_spec import ROWS_AHEAD
from polydl.options import Options

SOURCE = Path(__file__).parents[2] / "examples" / "conv2d.c"


def prefetches(image: int, rows: str) -> set[tuple[int, int]]:
    """(elements between rows, elements ahead) in the best variant of a 1x1 convolution whose rows are that loop."""
    defines = {"OFH": str(image), "OFW": str(image), "KH": "1", "KW": "1", "NIMG": "2"}
    options = Options(defines=defines, threads=2, space="default", machine="epyc-zen5")
    ranking = pipeline.rank(SOURCE, options=options)
    variant = next(
        v for v in ranking.variants if any(s.kernel is not None and s.inner[0].iterator == rows for s in v.structures)
    )
    text = "\n".join(generate(ranking.scop, variant.tree).prologue)
    return {(int(x), int(y)) for x, y in re.findall(r"__builtin_prefetch\(a \+ i \* (\d+) \+ (\d+)\)", text)}


@pytest.mark.parametrize("image", [14, 140])
def test_rows_in_one_stream(image: int) -> None:
    """The next block's rows, where the image is larger than a core's cache."""
    found = prefetches(image, "oi")
    assert not found if image == 14 else len(found) == 1
    for apart, ahead in found:
        assert apart == 64 and ahead % apart == 0 and ahead > 0


def test_rows_in_pages_of_their_own() -> None:
    assert prefetches(140, "oj") == {(140 * 64, ROWS_AHEAD)}
