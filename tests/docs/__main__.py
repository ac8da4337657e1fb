"""Run the blocks of pages and paste what they print into the `text` blocks that follow them.

python -m tests.docs docs/tutorial.md …
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.blocks import blocks, checkout, perform


def pasted(text: str, folder: Path) -> str:
    """The page with what its blocks print now. Raises RuntimeError for one that fails."""
    lines = text.splitlines()
    out, at = list[str](), 0
    printed = None
    for block in blocks(text):
        out += lines[at : block.line]
        before = "".join(lines[at : block.line - 1]).strip()
        if block.language == "text" and printed is not None and not before:
            out += [line.rstrip() for line in printed.rstrip().splitlines()]
        else:
            out += lines[block.line : block.end - 1]
        out.append(lines[block.end - 1])
        at = block.end
        done = perform(block, folder)
        if done is not None and done.returncode != 0:
            raise RuntimeError(f"line {block.line}: exit code {done.returncode}\n{done.stdout}")
        printed = done.stdout if done is not None else None
    return "\n".join([*out, *lines[at:]]) + "\n"


def main() -> None:
    """Entry point."""
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="polydl-docs-") as folder:
            path = Path(name)
            path.write_text(pasted(path.read_text(encoding="utf-8"), checkout(Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()
