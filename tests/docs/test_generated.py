"""What is made from code or data: the command-line reference, the map of the code, the README's picture."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import draw_convolutions
import pytest

from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
NO_MKDOCS = importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None


def hook(name: str) -> ModuleType:
    """A hook of mkdocs as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_option_of_every_command_is_in_the_reference() -> None:
    """As the command line's own --help has them."""
    page = hook("gen_cli").page()
    sections = dict(re.findall(r"^## polydl ([\w-]+)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    shown = subprocess.run([sys.executable, "-m", "polydl", "--help"], capture_output=True, text=True, check=True)
    names = re.findall(r"^[│|] ([a-z][\w-]*) ", shown.stdout, re.MULTILINE)
    assert sorted(sections) == sorted(names)
    found = 0
    for name in names:
        said = subprocess.run(
            [sys.executable, "-m", "polydl", name, "--help"], capture_output=True, text=True, check=True
        ).stdout
        # A line of the box of options begins with one; what stands further right are helps that mention others.
        options = set(re.findall(r"^[│|] (?:\*  |   )?(--[\w-]+)", said, re.MULTILINE)) - {"--help"}
        found += len(options)
        assert {option for option in options if option not in sections[name]} == set(), name
    assert found > 50


def test_the_map_has_every_module() -> None:
    """That has a floor; tests/test_layering.py sees to it that all have."""
    hooked = hook("gen_map")
    page, known = hooked.page(), frozenset().union(*hooked.floors())
    for path in (ROOT / "polydl").rglob("*.py"):
        owner = path.relative_to(ROOT / "polydl").parts[0].removesuffix(".py")
        if owner in known and path.read_text(encoding="utf-8").strip():
            assert f"`{path.relative_to(ROOT)}`" in page


def test_the_architecture_names_rooms_and_files_that_there_are() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rooms = {path.name for path in (ROOT / "polydl").iterdir() if (path / "__init__.py").is_file()}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == rooms
    for name in re.findall(r"`([\w/]+\.(?:py|j2|json))\b", page):
        assert (ROOT / name).is_file() or (ROOT / "polydl" / name).is_file(), name


def test_the_picture_is_that_of_the_table() -> None:
    made = draw_convolutions.drawing(draw_convolutions.ratios(draw_convolutions.TABLE.read_text(encoding="utf-8")))
    assert made == (DOCS / "assets" / "convolutions.svg").read_text(encoding="utf-8"), (
        "python experiments/draw_convolutions.py"
    )


def test_the_pictures_mean_is_the_one_of_the_readme() -> None:
    found = draw_convolutions.ratios(draw_convolutions.TABLE.read_text(encoding="utf-8"))
    (mean,) = re.findall(r"geometric mean ([0-9.]+)\)", draw_convolutions.drawing(found))
    layers = sum(len(ratios) for ratios in found.values())
    assert f"| {layers} convolutions of five networks | the fastest layout of oneDNN | {mean} " in (
        ROOT / "README.md"
    ).read_text(encoding="utf-8")


@pytest.mark.skipif(NO_MKDOCS, reason="no mkdocs-material: pip install 'polydl[docs]'")
def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (built.returncode, built.stderr) == (0, "")
    pages = list(tmp_path.rglob("*.html"))
    assert {"index.html", "tutorial.html", "cli.html", "code_map.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"""<(?:script|img|iframe)[^>]*\ssrc="https?:|<link[^>]*\shref="https?:""", text), (
            page.name
        )
