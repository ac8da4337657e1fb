"""What a schedule tree is up to the names of its statements and arrays: trees of equal nests are estimated once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from polydl.schedule.tree import ALONE, Band, Copy, Kernel, Leaf, Member, Node, Sequence, subtrees


def tree_shape(node: Node, statements: Mapping[str, int], arrays: Mapping[str, int]) -> Hashable | None:
    """A value that two trees have in common where they differ in names alone: of statements and arrays with the same
    numbers. None of trees with kernels, with loops of several nests, or with loops that are shared out in another way
    than OpenMP's."""
    loops: dict[int, int] = {}

    def of_loop(member: Member) -> Hashable:
        whole = member.affs if member.whole is None else member.whole
        return (
            tuple((statements[s], _unnamed(member.text(s), s), _unnamed(str(whole[s]), s)) for s in member.affs),
            (member.run, member.unroll, member.tile, member.split, member.diagonal, member.name),
            loops.setdefault(id(member.key), len(loops)),
        )

    def of(at: Node) -> Hashable:
        match at:
            case Leaf(statement, rows):
                stream = None if rows is None else tuple(arrays[name] for name in rows.stream)
                return statements[statement], stream, rows and (rows.keep_order, rows.jam)
            case Band(members, child):
                return tuple(map(of_loop, members)), of(child)
            case Sequence(children):
                return tuple(map(of, children))
            case Kernel() | Copy():
                raise AssertionError("a tree with kernels has no shape")

    return of(node) if _plain(node) else None


def _plain(node: Node) -> bool:
    if isinstance(node, Kernel | Copy):
        return False
    loops = node.members if isinstance(node, Band) else ()
    return all(m.share == ALONE and m.names is None and not m.team for m in loops) and all(map(_plain, subtrees(node)))


def _unnamed(text: str, statement: str) -> str:
    """isl text of a function of a statement's iterators, without its name."""
    return text.replace(f"{{ {statement}[", "{ [", 1)
