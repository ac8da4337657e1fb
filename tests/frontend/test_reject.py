"""Bad input: every file of tests/reject/ gives exactly the errors that it announces, each at its place.

// expect: LINE:COLUMN: part of the message        one or more
// strict_alias / require_sizes                    options of `load`
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load

FOLDER = Path(__file__).parent.parent / "reject"
FILES = sorted(FOLDER.glob("*.c"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rejected(path: Path) -> None:
    text = path.read_text()
    expected = re.findall(r"^// expect: (\d+):(\d+): (.*)$", text, re.MULTILINE)
    assert expected, "the file announces no error"
    with pytest.raises(InputErrors) as caught:
        load(path, strict_alias="// strict_alias" in text, require_sizes="// require_sizes" in text)
    found = caught.value.errors
    shown = caught.value.render()
    assert len(found) == len(expected), shown
    lines = text.split("\n")
    for error, (line, column, fragment) in zip(found, expected, strict=True):
        assert error.span is not None
        assert (error.span.line, error.span.column) == (int(line), int(column)), shown
        assert fragment in error.reason, shown
        assert error.span.text == lines[int(line) - 1]
        assert error.hint, f"no way out: {shown}"
        assert error.exit_code == 2
        assert error.span.column + error.span.length - 1 <= len(error.span.text)


def test_there_are_files() -> None:
    assert len(FILES) >= 40
