"""Lvalues of C, and reading and writing what they designate."""

from __future__ import annotations

from dataclasses import replace

from pycparser import c_ast

from polydl.oracle.c_conversions import Conversions
from polydl.oracle.c_types import (
    CHAR,
    Array,
    CType,
    Function,
    Integer,
    PointerTo,
    Real,
    Record,
    Vector,
    Void,
    alignment_of,
    size_of,
)
from polydl.oracle.c_values import Effects, Enumerated, Named, Place, Value, Variable, times, total

BY_VIEW = {"i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"}
"""Types that an object's views read without a call."""


class Places(Conversions):
    """What is read and written."""

    def place(self, node: c_ast.Node, *, address: bool = False) -> Place:
        if isinstance(node, c_ast.ID):
            return self._named(node)
        if isinstance(node, c_ast.ArrayRef):
            return self._element(node, address)
        if isinstance(node, c_ast.StructRef):
            return self._member(node)
        if isinstance(node, c_ast.UnaryOp) and node.op == "*":
            return self.pointed(self.value(node.expr), node)
        if isinstance(node, c_ast.Constant) and "string" in node.type:
            return self._string(node)
        if isinstance(node, c_ast.CompoundLiteral):
            return self.literal(node)
        if isinstance(node, c_ast.UnaryOp) and node.op in ("__real__", "__imag__"):
            raise self.refuse("complex numbers", node)
        if isinstance(node, c_ast.Cast | c_ast.Compound):  # a vector's elements are read as a cast's
            return self._temporary(self.value(node), node)
        value = self.value(node)
        if isinstance(value.type, Record | Vector):
            return self._temporary(value, node)
        raise self.refuse("no place of memory", node)

    def literal(self, node: c_ast.CompoundLiteral) -> Place:
        raise NotImplementedError

    def string_bytes(self, node: c_ast.Constant) -> bytes:
        raise NotImplementedError

    def _temporary(self, value: Value, node: c_ast.Node) -> Place:
        """A place for a value that has none: a structure that a call returned."""
        if not isinstance(value.type, Record | Vector):
            raise self.refuse("no place of memory", node)
        obj = self.fresh("o")
        self.emit(f"{obj} = M.new('temporary', {size_of(value.type)}, origin='automatic')")
        place = Place(value.type, node, obj=obj, effects=value.effects)
        self._write(place, value, node)
        return place

    def _named(self, node: c_ast.ID) -> Place:
        found = self.scope.symbol(node.name)
        if isinstance(found, Variable):
            if found.link:
                self.linked(found.code, found.link)
            if found.in_memory:
                return Place(found.type, node, obj=found.code)
            return Place(found.type, node, variable=found)
        if isinstance(found, Named):
            code = self.linked(f"f_{node.name}", f"E.function_object({node.name!r})")
            return Place(found.type, node, obj=code)
        if found is None:
            raise self.refuse(f"'{node.name}' is not declared", node)
        raise self.refuse(f"'{node.name}' is no object", node)

    def linked(self, code: str, link: str) -> str:
        """A name that is found once, before the function runs."""
        self.links[code] = link
        return code

    def _element(self, node: c_ast.ArrayRef, address: bool) -> Place:
        if self._is_lvalue(node.name):
            base = self.place(node.name)
            if isinstance(base.type, Array | Vector):
                index = self.value(node.subscript)
                if not isinstance(index.type, Integer):
                    raise self.refuse(f"a subscript of type '{index.type}'", node)
                effects = self.together(node, base.effects, index.effects)
                return self._within(base, index, effects, node, address)
            pointer = self.load(base)
        else:
            pointer = self.value(node.name)
        index = self.value(node.subscript)
        if isinstance(pointer.type, Integer):
            pointer, index = index, pointer
        effects = self.together(node, pointer.effects, index.effects)
        if isinstance(pointer.type, Vector) and isinstance(index.type, Integer):
            return self._within(self._temporary(pointer, node), index, effects, node, address)
        if not isinstance(pointer.type, PointerTo) or not isinstance(index.type, Integer):
            raise self.refuse(f"'{pointer.type}' with a subscript of type '{index.type}'", node)
        return self.pointed(self.moved(pointer, index, 1, node).after(effects), node)

    def _is_lvalue(self, node: c_ast.Node) -> bool:
        if isinstance(node, c_ast.ID):
            return isinstance(self.scope.symbol(node.name), Variable)
        if isinstance(node, c_ast.UnaryOp):
            return bool(node.op == "*")
        if isinstance(node, c_ast.Constant):
            return "string" in node.type
        return isinstance(node, c_ast.ArrayRef | c_ast.StructRef | c_ast.CompoundLiteral)

    def _within(self, base: Place, index: Value, effects: Effects, node: c_ast.Node, address: bool) -> Place:
        """An element of an array whose size is known: the subscript lies within."""
        kind = base.type
        assert isinstance(kind, Array | Vector)
        count = kind.count if isinstance(kind, Array) else kind.lanes
        element = kind.element
        if count is not None and not (count == 0 and isinstance(kind, Array)):
            index = self.settled(index)
            self._inside(index, count, node, address)
        width = self.bytes_of(element)
        step = times(index.code, width if isinstance(width, int) else f"({width})")
        return Place(element, node, obj=base.obj, offset=total(base.offset, step), effects=effects)

    def _inside(self, index: Value, count: int | str | None, node: c_ast.Node, address: bool) -> None:
        if count is None or (
            isinstance(index.constant, int)
            and isinstance(count, int)
            and index.constant >= 0
            and index.constant < count + address
        ):
            return
        compared = "<=" if address else "<"
        self.emit(f"if not 0 <= {index.code} {compared} {count}: bad_index({index.code}, {count}, {self.at(node)})")

    def _member(self, node: c_ast.StructRef) -> Place:
        base = self.pointed(self.value(node.name), node) if node.type == "->" else self.place(node.name)
        record = base.type
        if not isinstance(record, Record):
            raise self.refuse(f"a member of '{record}'", node)
        if record.refused:
            raise self.refuse(record.refused, node)
        found = record.found(node.field.name)
        if found is None:
            raise self.refuse(f"'{record}' has no member '{node.field.name}'", node)
        offset, kind = found
        alignment = 1 if record.alignment < alignment_of(kind) else 0
        return replace(base, type=kind, node=node, offset=total(base.offset, offset), alignment=alignment)

    def pointed(self, pointer: Value, node: c_ast.Node) -> Place:
        """What a pointer points to."""
        if not isinstance(pointer.type, PointerTo):
            raise self.refuse(f"'{pointer.type}' is no pointer", node)
        return Place(pointer.type.target, node, obj=pointer.code, offset=pointer.offset, effects=pointer.effects)

    def _string(self, node: c_ast.Constant) -> Place:
        data = self.string_bytes(node)
        code = self.linked(f"s_{self.at(node)[2:-1]}", f"E.literal({data!r})")
        return Place(Array(CHAR, len(data)), node, obj=code)

    # Reading and writing.

    def load(self, place: Place) -> Value:
        """The value of what an lvalue designates, after the conversion of arrays and functions to pointers."""
        kind, node = place.type, place.node
        if isinstance(kind, Array | Function):
            return Value(self.decayed(kind), place.obj, place.offset, effects=place.effects)
        if isinstance(kind, Void):
            return self.nothing(place.effects)
        reads = Effects(reads=(place.touched(1),))
        if place.variable is not None:
            return self._variable(place.variable, node).after(place.effects + reads)
        place = self.fixed(place)
        size = size_of(kind)
        effects = place.effects + Effects(reads=(place.touched(size),))
        if isinstance(kind, Record | Vector):
            return self._whole(place, kind, size, effects)
        assert isinstance(kind, Integer | Real | PointerTo)
        name = self.fresh()
        obj, offset, at = place.obj, place.offset, self.at(node)
        target = f"{name}o, {name}f" if isinstance(kind, PointerTo) else name
        alignment = self._alignment(place)
        slow = f"{obj}.load({kind.code!r}, {offset}, {at}{f', {alignment}' if alignment else ''})"
        view = "u8" if kind.code == "p8" else kind.code
        if view in BY_VIEW:
            number = f"{obj}.{view}[{offset}{f' >> {size.bit_length() - 1}' if size > 1 else ''}]"
            self.emit(f"if {self._unusual(place, size)}: {target} = {slow}")
            self.emit(f"else: {target} = {f'M.at({number})' if kind.code == 'p8' else number}")
        else:
            self.emit(f"{target} = {slow}")
        self._tell("load", place, size)
        if isinstance(kind, PointerTo):
            return Value(kind, f"{name}o", f"{name}f", effects=effects)
        return Value(kind, name, effects=effects)

    def _alignment(self, place: Place) -> int:
        """What a type or a packed structure says, 0 for the type's size."""
        kind = place.type
        return place.alignment or (kind.least_alignment if isinstance(kind, Integer | Real) else 0)

    def _unusual(self, place: Place, size: int) -> str:
        """Python that is true where an access may be none that a view can do."""
        aligned = f"{place.offset} & {size - 1} or " if size > 1 else ""
        return f"{aligned}not {place.obj}.begin <= {place.offset} < {place.obj}.e{size}"

    def _tell(self, what: str, place: Place, size: int) -> None:
        if self.traced:
            self.emit(f"T.{what}({place.obj}, {place.offset}, {size}, {self.at(place.node)})")

    def fixed(self, place: Place) -> Place:
        """The place with its object and offset in names."""
        if place.variable is not None:
            return place
        return replace(place, obj=self.atom(place.obj), offset=self.atom(place.offset))

    def _variable(self, variable: Variable, node: c_ast.Node) -> Value:
        kind, code = variable.type, variable.code
        pointer = isinstance(kind, PointerTo)
        if variable.checked:
            self.emit(f"if {code}{'o' if pointer else ''} is None: no_value({variable.name!r}, {self.at(node)})")
        return Value(kind, f"{code}o", f"{code}f") if pointer else Value(kind, code)

    def _whole(self, place: Place, kind: Record | Vector, size: int, effects: Effects) -> Value:
        alignment = place.alignment or alignment_of(kind)
        name, at = self.fresh(), self.at(place.node)
        self.emit(f"{name} = {place.obj}.read({place.offset}, {size}, {at}, {alignment})")
        self._tell("load", place, size)
        if isinstance(kind, Vector):
            self.emit(f"{name} = lanes_of({name}, {kind.element.code!r}, {at})")
        return Value(kind, name, effects=effects)

    def store(self, place: Place, value: Value, node: c_ast.Node, *, again: bool = False) -> Value:
        """Write a value that has the place's type; the value of the assignment, with the effects of all of it."""
        place = self.fixed(place)
        effects = self.written(
            place, self.width(place), self.together(node, place.effects, value.effects), node, again=again
        )
        value = self._write(place, value, node)
        return value.after(effects)

    def width(self, place: Place) -> int:
        """Bytes that an access touches."""
        return 1 if place.variable is not None else size_of(place.type)

    def _write(self, place: Place, value: Value, node: c_ast.Node) -> Value:
        """The write alone; the value as it may be read afterwards."""
        kind = place.type
        if place.variable is not None:
            return self.keep(place.variable, value)
        size, at = size_of(kind), self.at(node)
        obj, offset = place.obj, place.offset
        if isinstance(kind, Record | Vector):
            alignment = place.alignment or alignment_of(kind)
            value = self.settled(value)
            data = f"bytes_of({value.code}, {kind.element.code!r})" if isinstance(kind, Vector) else value.code
            self.emit(f"{obj}.write({offset}, {data}, {at}, {alignment})")
        else:
            assert isinstance(kind, Integer | Real | PointerTo)
            value = self.settled(value)
            view = "u8" if kind.code == "p8" else kind.code
            given = f"({value.code}, {value.offset})" if kind.code == "p8" else value.code
            extra = f", {alignment}" if (alignment := self._alignment(place)) else ""
            slow = f"{obj}.store({kind.code!r}, {offset}, {given}, {at}{extra})"
            if view in BY_VIEW:
                number = f"{value.code}.address + {value.offset} & {2**64 - 1}" if kind.code == "p8" else value.code
                index = f"{offset}{f' >> {size.bit_length() - 1}' if size > 1 else ''}"
                self.emit(f"if {self._unusual(place, size)} or {obj}.readonly: {slow}")
                self.emit(f"else: {obj}.{view}[{index}] = {number}")
            else:
                self.emit(slow)
        self._tell("store", place, size)
        return value

    def keep(self, variable: Variable, value: Value) -> Value:
        """Give a value to a variable that Python keeps."""
        code = variable.code
        if isinstance(variable.type, PointerTo):
            self.emit(f"{code}o, {code}f = {value.code}, {value.offset}")
            return Value(variable.type, f"{code}o", f"{code}f")
        if value.raw:
            self.emit(f"C4[0] = {value.code}")
            self.emit(f"{code} = C4[0]")
        else:
            self.emit(f"{code} = {value.code}")
        return Value(variable.type, code, constant=None)

    def enumerated(self, node: c_ast.ID) -> Value | None:
        """The value of an enumeration constant."""
        found = self.scope.symbol(node.name)
        return self.number(found.value, found.type) if isinstance(found, Enumerated) else None

    def address(self, node: c_ast.Node) -> Value:
        """`&` of an lvalue."""
        place = self.place(node, address=True)
        if place.variable is not None:
            raise self.refuse("the address of what has none", node)
        return Value(PointerTo(place.type), place.obj, place.offset, effects=place.effects)

    def member_type(self, record: CType, name: str, node: c_ast.Node) -> tuple[int, CType]:
        """Offset and type of a member, for `offsetof`."""
        found = record.found(name) if isinstance(record, Record) else None
        if found is None:
            raise self.refuse(f"'{record}' has no member '{name}'", node)
        return found
