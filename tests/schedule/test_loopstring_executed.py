"""Random loop strings of random programs: legal ones compute the same on several threads, illegal ones are refused."""

from __future__ import annotations

import ctypes
import random
import re
from dataclasses import replace
from pathlib import Path

from polydl.base.errors import InputError
from polydl.dependences.analysis import dependences
from polydl.dependences.directions import nest_legality
from polydl.dependences.nests import Nest, nests
from polydl.frontend import load
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.rewrite.canonical import Form, canonical
from polydl.schedule.check import check
from polydl.schedule.loops import NestLoops, apply
from polydl.schedule.loopstring import letters, parse
from polydl.schedule.notation import Written
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.quick_legality import is_legal
from tests.oracle import Limits, Program, render
from tests.schedule.test_executed import compare, sampled, tiny_blocks


def random_string(nest: Nest, rng: random.Random) -> tuple[str, str]:
    """Any loop string of a nest, most with parallel loops; without a microkernel, so that any order is said."""
    letter = {loop: c for c, loop in letters(nest).items()}
    sizes = {c: rng.choice(["", "", "2", "3", "4,2"]) for c in letter.values()}
    order = [c for c in letter.values() for _ in range(1 + len([s for s in sizes[c].split(",") if s]))]
    rng.shuffle(order)
    said = list(order)
    kind = rng.choice(["collapse", "grid", "grid"])
    places = sorted(rng.sample(range(len(said)), min(len(said), rng.choice([1, 2, 2, 3]))))
    if kind == "grid":
        for place, axis in zip(places, rng.sample("RCL"[: len(places)], len(places)), strict=True):
            said[place] = f"{said[place].upper()}{{{axis}:{rng.randint(1, 4)}}}"
    else:
        for place in range(places[0], min(places[0] + rng.randint(1, 2), len(said))):
            said[place] = said[place].upper()
        said.append(rng.choice(["", "@schedule(dynamic,1)", "@schedule(static,1)"]))
    blocks = [f"{c}={s}" for c, s in sizes.items() if s]
    return "".join(said), ";".join([*blocks, "mk=none"] if nest.contraction else blocks)


def variants_of(program: Program, folder: Path, rng: random.Random) -> tuple[list[str], int, int]:
    """C texts of legal variants, how many had a grid, and how many strings the dependences refused."""
    text = render(program)
    path = folder / f"{program.name}.c"
    path.write_text(text)
    body = text[text.rindex("\n{") :]
    loaded = load(path, sizes={n: v for n, v in program.parameters.items() if re.search(rf"\b{n}\b", body)})
    if len(loaded.scops) != 1:
        return [], 0, 0
    scop = canonical(loaded.scops[0], form=Form.WRITTEN).scop
    found = dependences(scop, reads=False)
    parts = nests(scop, found)
    texts: list[str] = []
    grids = refused = 0
    for _ in range(12):
        made: list[NestLoops] = []
        for nest in parts:
            loops, blocks = random_string(nest, rng) if nest.loops else ("", "")
            try:
                steps = parse(nest, Written(loops, "-"), Written(blocks, "-"), tiny_blocks) if loops else ()
            except InputError:  # no constant extent to cut
                steps = ()
            made.append(apply(nest, steps))
        tree = program_tree([Ordered.nest(one) for one in made])
        broken = check(scop, tree, found)
        if broken is not None:
            refused += 1
            # The quick check may refuse more than the exact one, never less.
            assert not all(is_legal(s, nest_legality(s.nest, found)) for s in made), broken
        elif len(texts) < 3:
            grids += any(s.grid for s in made)
            output = splice(loaded.source, [(scop, generate(scop, tree))], "")
            texts.append(re.sub(rf"\b{program.name}\b", f"{program.name}_l{len(texts)}", output))
    return texts, grids, refused


def test_legal_strings_compute_the_same(tmp_path: Path) -> None:
    rng = random.Random(11)
    with_grid = refused = 0
    made = []
    for number, program in enumerate(sampled(Limits(), 90)):
        program = replace(program, name=f"loops_{number}")
        try:
            texts, grids, broken = variants_of(program, tmp_path, rng)
        except InputError:
            continue
        made.append((program, texts))
        with_grid += grids
        refused += broken
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(3)
    compare(made, "l", 2)
    assert sum(len(texts) for _, texts in made) > 80
    assert with_grid > 20
    assert refused > 80
