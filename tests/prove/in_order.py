"""A program as it is written for the order of its file, with and without the lines that say instances."""

from __future__ import annotations

from pathlib import Path

from polydl import load
from polydl.dependences.analysis import dependences
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.rewrite.canonical import Canonical, canonical
from polydl.schedule.as_tree import written
from polydl.schedule.direction import moving
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import direct
from polydl.schedule.transforms import Schedule
from polydl.search.candidates import made


def in_order(text: str, folder: Path) -> tuple[Canonical, list[str]]:
    """The program in the form in which it is searched, and both texts of it, as `polydl.prove.prove` takes them."""
    path = folder / "k.c"
    path.write_text(text)
    program = canonical(load(path).scops[0])
    scop, how = program.scop, Schedule("written")
    links = direct(scop, scop.statements, dependences(scop, reads=False))
    tree = made(scop, moving(scop, scop.statements), links, written(scop.statements), how, reassociate=True)
    part = Ordered.scheduled(scop.statements, how, tree)
    return program, [
        splice(scop.source, [(scop, generate(scop, program_tree([part]), instances=marks))], "")
        for marks in (False, True)
    ]
