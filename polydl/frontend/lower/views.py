"""Views: members of structures that a region uses through variables of their own, which the output declares."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.lower.member_nodes import bare, is_qualified, make_const, renamed, written
from polydl.frontend.lower.regions import Found
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.records import Records, Unknown
from polydl.frontend.meaning.symbols import Level, Scope, Symbol
from polydl.frontend.text.parse import Unit
from polydl.model.scop import Storage, View

_TOPIC = "struct-members"
_COPY = "copy what the region needs into local variables in front of it"
_SCALARS = (c_ast.IdentifierType, c_ast.Enum)


@dataclass(slots=True)
class Reached:
    """Where a chain of members leads before its first subscript."""

    root: Symbol
    text: str
    words: list[str]
    type: Any
    """pycparser type node."""
    decl: Any
    """Decl of the last member; None for the root itself."""
    const: bool = False
    offset: int = 0
    """Bytes from the start of what the last pointer points to, or of the root."""
    unknown: str = ""
    """Why the offset is not known; empty where it is."""
    pointers: list[tuple[str, Node]] = field(default_factory=list)
    """What `->` goes through, with the structure that it points to."""


class Views:
    """The views of a region, as passes over it find them."""

    def __init__(self, found: Found, unit: Unit) -> None:
        self.found = found
        self.places = unit.places
        self.words = frozenset(re.findall(r"[A-Za-z_]\w*", unit.source.text))
        self.outer = Scope(found.scope)
        """Of the current pass: names visible at the region's start, with the arrays and views that members became."""
        self.scope = self.outer
        self.views: dict[str, View] = {}
        """Of the current pass."""
        self.named: dict[str, str] = {}
        """Of the current pass: text of a member -> name of its view."""
        self.written: set[str] = set()
        """Members, no elements of arrays, that the region writes."""
        self.sure: set[str] = set()
        """Pointers that are followed however often the loops run."""
        self.last = False
        """Whether this pass knows everything."""

    def error(self, reason: str, node: Node, hint: str = _COPY) -> InputError:
        """About a member."""
        return self.places.error(reason, node, hint, topic=_TOPIC)

    @property
    def records(self) -> Records:
        """The structures that are visible here."""
        return Records(self.scope, constant)

    def free(self, stem: str) -> str:
        """A name that nothing has, perhaps with a number behind it."""
        names = chain((stem,), (f"{stem}{number}" for number in count(1)))
        return next(name for name in names if name not in self.words and name not in self.views)

    def view(self, reached: Reached, node: Node) -> Node:
        """The name of the view of a member."""
        text = reached.text
        if text not in self.named:
            self._declare(reached, node)
        named = c_ast.ID(self.named[text], node.coord)
        symbol = self.outer.symbols[named.name]
        if text in self.written:
            if self.last and not symbol.inside:
                raise self.error(f"the pointer '{text}' is written in the scop", node)
            if len(symbol.levels) == 1 and isinstance(self.records.peeled(reached.type), _SCALARS):
                return c_ast.ArrayRef(named, c_ast.Constant("int", "0", node.coord), node.coord)
        return named

    def _declare(self, reached: Reached, node: Node) -> None:
        text, root, type_ = reached.text, reached.root, reached.type
        if root.storage is Storage.GLOBAL and is_qualified(root.decl.type):
            raise self.error(f"'{root.name}' is a constant of the file", node)
        free = self.named[text] = self.free("_".join(reached.words))
        records = self.records
        kind = records.peeled(type_)
        ctype, levels, const, _ = self.scope.resolve(type_)
        scalar = isinstance(kind, _SCALARS)
        if isinstance(kind, (c_ast.Struct, c_ast.Union)):
            raise self.error(f"the structure '{text}' is used as a whole", node, "use its members")
        address = text if not scalar else f"&{text}"
        shown = renamed(type_, free)
        # What the structure itself holds, and not what a pointer in it points to.
        inside = (scalar and text in self.written) or isinstance(kind, c_ast.ArrayDecl)
        held = type_ if scalar else getattr(kind, "type", type_)
        if inside or isinstance(kind, c_ast.PtrDecl):
            pointed = renamed(held, free)
            if inside and reached.const:
                make_const(pointed)
            restrict = isinstance(kind, c_ast.PtrDecl) and "restrict" in (kind.quals or [])
            shown = c_ast.PtrDecl(["restrict"] if restrict else [], pointed, node.coord)
        elif scalar:
            make_const(shown)
        if scalar and inside:
            levels = (Level(False, c_ast.Constant("int", "1", node.coord)),)
        decl = c_ast.Decl(free, [], [], [], [], shown, None, None, reached.decl.coord)
        storage = Storage.PARAMETER if root.storage is Storage.PARAMETER else Storage.LOCAL
        place: tuple[int, int] | None = None
        if inside:
            if reached.unknown:
                raise self.error(f"where '{text}' lies in its structure is not known: {reached.unknown}", node)
            if not reached.pointers and root.storage is not Storage.GLOBAL:
                raise self.error(f"'{text}' lies in a structure that is neither global nor behind a pointer", node)
            try:
                place = (reached.offset, records.size(type_)[0])
            except Unknown as error:
                raise self.error(f"the size of '{text}' is not known: {error}", node) from None
        value = address if inside else text
        unsure = [pointer for pointer, _ in reached.pointers if pointer not in self.sure]
        if unsure:
            value = f"{' && '.join(unsure)} ? {value} : 0"
        self.outer.symbols[free] = Symbol(
            free, ctype, levels, storage, decl, const or (inside and reached.const), member=text, inside=inside
        )
        self.views[free] = View(
            free,
            written(decl),
            text,
            value,
            root.name,
            None if root.storage is Storage.GLOBAL else written(bare(root.decl)),
            tuple((pointer, _size(records, of)) for pointer, of in reached.pointers),
            place,
        )


def _size(records: Records, type_: Node) -> int | None:
    try:
        return records.size(type_)[0]
    except Unknown:
        return None
