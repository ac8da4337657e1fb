"""Every command in README.md and docs/ runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import MISSPELT, ROOT, blocks, checkout, pages, perform, time_briefly

NAMED = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]


@pytest.mark.parametrize("page", NAMED)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    found = list(blocks(page.read_text(encoding="utf-8")))
    if not any(block.is_run for block in found):
        pytest.skip("a page without commands")
    time_briefly(checkout(tmp_path))
    for block in found:
        done = perform(block, tmp_path)
        assert done is None or done.returncode == 0, f"{page.name}:{block.line}\n{block.text}\n{done.stdout[-3000:]}"


@pytest.mark.parametrize("page", NAMED)
def test_blocks_are_what_they_say(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        assert block.language, f"{page.name}:{block.line}: a block without a language"
        assert block.text.strip(), f"{page.name}:{block.line}: an empty block (python -m tests.docs pastes outputs)"
        assert block.language not in MISSPELT, f"{page.name}:{block.line}: call it sh or python"


@pytest.mark.parametrize("page", NAMED)
def test_commands_stand_in_fences(page: Path) -> None:
    """An indented command is one that nobody runs."""
    text = page.read_text(encoding="utf-8")
    fenced = {n for block in blocks(text) for n in range(block.line, block.end + 1)}
    for number, line in enumerate(text.splitlines(), 1):
        if number not in fenced:
            assert not re.match(r" {4,}(polydl|make|pip|python3?|cc|gcc|cmake|dask|\$) ", line), f"{page.name}:{number}"


@pytest.mark.parametrize("page", NAMED)
def test_links_lead_somewhere(page: Path) -> None:
    """Links between files of the repository. (`mkdocs build --strict` checks those of the site.)"""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" in target or target in GENERATED:
            continue
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


GENERATED = ("cli.md", "code_map.md")
"""Pages that docs/gen_cli.py and docs/gen_map.py make when the site is built."""


@pytest.mark.parametrize(
    ("text", "languages", "runs"),
    [
        ("```sh\nls\n```\n", ["sh"], [True]),
        ("<!-- not run: takes an hour -->\n```sh\nls\n```\n```python\n1\n```\n", ["sh", "python"], [False, True]),
        ('```python title="x.py"\n1\n```\n', ["python"], [False]),
        ("- item\n\n    ```sh\n    ls\n    ```\n", ["sh"], [True]),
    ],
)
def test_reading(text: str, languages: list[str], runs: list[bool]) -> None:
    found = list(blocks(text))
    assert [b.language for b in found] == languages
    assert [b.is_run for b in found] == runs
    assert not any(line.startswith(" ") for b in found for line in b.text.splitlines())


@pytest.mark.parametrize("text", ["```sh\nls\n", "<!-- not run: why -->\n\n```sh\nls\n```\n"])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line [12]: "):
        list(blocks(text))


def test_a_failing_command_is_seen(tmp_path: Path) -> None:
    (block,) = blocks("```sh\nfalse | true\necho not reached\n```\n")
    done = perform(block, tmp_path)
    assert done is not None and done.returncode != 0 and "reached" not in done.stdout
