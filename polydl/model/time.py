"""Time: the original execution order of a scop's statements, and orders between times."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.model import isl
from polydl.model.scop import Scop, Statement


def common_depth(a: Statement, b: Statement) -> int:
    """Number of loops that the two statements share (outermost first)."""
    depth = 0
    while depth < min(a.depth, b.depth) and a.position[: depth + 1] == b.position[: depth + 1]:
        depth += 1
    return depth


def shared_depth(statements: Sequence[Statement]) -> int:
    """Number of loops that all of some statements share; those of a statement by itself."""
    first = statements[0]
    return min((common_depth(first, s) for s in statements[1:]), default=first.depth)


def inside_of(scop: Scop, loop: tuple[int, ...]) -> list[Statement]:
    """The statements in a loop, which is given by where it stands: they have its positions up to its depth."""
    return [s for s in scop.statements if s.depth >= len(loop) and s.position[: len(loop)] == loop]


def time_affs(statement: Statement) -> list[isl.Aff]:
    """{ S[i…] -> [±i_d] } for each iterator: values that increase as the loop runs."""
    return [
        aff.neg() if name in statement.descending else aff
        for name, aff in zip(statement.iterators, isl.coordinates(statement.domain), strict=True)
    ]


def original_affs(statement: Statement, depth: int) -> list[isl.Aff]:
    """The 2d+1 schedule of a statement, padded with zeros to 2*depth+1 dimensions."""
    affs: list[isl.Aff] = []
    times = time_affs(statement)
    for d in range(depth):
        affs.append(isl.constant(statement.domain, statement.position[d] if d < len(statement.position) else 0))
        affs.append(times[d] if d < statement.depth else isl.constant(statement.domain, 0))
    affs.append(isl.constant(statement.domain, statement.position[depth] if depth < len(statement.position) else 0))
    return affs


def map_from_affs(domain: isl.Set, affs: Sequence[isl.PwAff | isl.Aff]) -> isl.Map:
    """{ S[i…] -> [aff0, aff1, …] : i in domain } with an anonymous range tuple."""
    plain = [aff for aff in affs if isinstance(aff, isl.Aff)]
    if len(plain) == len(affs):
        return isl.graph(plain, domain)
    result = isl.Map.from_domain(domain)
    for aff in affs:
        pw = isl.PwAff.from_aff(aff) if isinstance(aff, isl.Aff) else aff
        result = result.flat_range_product(isl.Map.from_pw_aff(pw))
    return result


def prefix(statement: Statement, depth: int) -> isl.Map:
    """{ S[i…] -> [p…] } the iteration of the outer loops."""
    return map_from_affs(statement.domain, isl.coordinates(statement.domain)[:depth])


def original_schedule(scop: Scop) -> dict[str, isl.Map]:
    """Per statement, { S[i…] -> [p0, t0, p1, t1, …] }, all of the same length: executed in lexicographic order."""
    depth = max((s.depth for s in scop.statements), default=0)
    return {s.name: map_from_affs(s.domain, original_affs(s, depth)) for s in scop.statements}
