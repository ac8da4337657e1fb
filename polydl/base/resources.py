"""The only finder of what is not Python: `templates/`, `trained_models/`, `polydl.h`, a page of `docs/`, the kernels to
collect with; in wheel and checkout alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _folder(name: str) -> Path:
    """The folder `name`: inside the package in an installed wheel, beside it in a checkout."""
    for candidate in (_PACKAGE / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"polydl was installed without its folder '{name}'")


def templates() -> Path:
    """Folder of the jinja2 templates."""
    return _folder("templates")


def trained_models() -> Path:
    """Folder of the shipped ranker weights and their data."""
    return _folder("trained_models")


def headers() -> Path:
    """Folder of `polydl.h`, which C programs include."""
    return _PACKAGE / "include"


def header_flags() -> tuple[str, ...]:
    """Flags of a C compiler that finds `polydl.h` with them, after every other folder: a copy of the user's wins; and
    C's headers by their names in C++ (`<cmath>`), for files of C++ whose regions are C."""
    return "-idirafter", str(headers()), "-idirafter", str(_PACKAGE / "as_c")


def refused() -> dict[str, str]:
    """The paragraphs of docs/refused.md by their headings, in Markdown."""
    text = (_folder("docs") / "refused.md").read_text(encoding="utf-8")
    sections = (section.partition("\n") for section in text.split("\n## ")[1:])
    return {name: body.strip() for name, _, body in sections}


def kernels() -> Path:
    """Folder of the C files (`conv.c`, `gemm.c`, those of small types) that training data are collected with."""
    for candidate in (_PACKAGE / "collected", _PACKAGE.parent / "experiments" / "kernels"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError("polydl was installed without its folder 'kernels'")


def own_files() -> Iterator[tuple[str, Path]]:
    """Everything of polydl that a result depends on, as (name wherever it is installed, file), in a fixed order."""
    folders = {
        "polydl": (_PACKAGE, ("*.py", "*.toml", "*.h")),
        "templates": (templates(), ("*.j2",)),
        "trained_models": (trained_models(), ("*.safetensors",)),
        "kernels": (kernels(), ("*.c",)),
    }
    for name, (folder, patterns) in folders.items():
        found = {path.relative_to(folder): path for pattern in patterns for path in folder.rglob(pattern)}
        yield from ((f"{name}/{path}", found[path]) for path in sorted(found))
