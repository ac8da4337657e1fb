"""The only finder of `templates/` and `trained_models/`, in a wheel and in a checkout alike."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


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
