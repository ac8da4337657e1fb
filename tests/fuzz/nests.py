"""What random programs are made of: nests of loops, and loops that are kept as they are written."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.bounds import Poly
from tests.fuzz.loops import loop
from tests.fuzz.parts import Array, Index
from tests.fuzz.programs import Builder
from tests.fuzz.values import DOUBLE, FLOAT, FLOATS, INT, LONG, UNSIGNED, Value

_ARITHMETIC = (FLOAT, DOUBLE, INT, LONG, UNSIGNED)


def walk(b: Builder) -> None:
    """A pointer that walks along a row, or over all rows."""
    c = b.c
    array, step = b.array(), 1 + c.below(2)
    name = b.fresh("p")
    if len(array.dims) == 2 and array.style != "flat":
        with loop(b, "plain") as outer:
            zero = Index("0", Poly(), Poly(), INT)
            b.element(array, [outer, zero])
            b.emit(f"{array.type.name} *{name} = {array.name}[{outer.text}];")
            with loop(b) as inner:
                array.dims[1] = array.dims[1].join((inner.high - inner.low + 1) * step)
                _stepped(b, array, name, step)
        return
    start = c.below(3)
    b.emit(f"{array.type.name} *{name} = {array.name}" + (f" + {start};" if start else ";"))
    with loop(b) as inner:
        reach = (inner.high - inner.low + 1) * step + start
        if len(array.dims) == 2:
            array.dims[0], array.dims[1] = array.dims[0].join(Poly.of(1)), array.dims[1].join(reach)
        else:
            array.dims[0] = array.dims[0].join(reach)
        _stepped(b, array, name, step)


def _stepped(b: Builder, array: Array, name: str, step: int) -> None:
    c = b.c
    advance = f"{name}++" if step == 1 else f"{name} += {step}"
    match c.below(3):
        case 0:
            b.store(
                b.array(), None, b.operated(c.pick(("+", "*")), Value(f"*{name}", array.type, *array.limit), b.leaf())
            )
            b.emit(f"{advance};")
        case 1:
            text = b.stored(b.expression(1), array.type, *array.fill)
            if step == 1:
                b.emit(f"*{name}++ = {text};")
            else:
                b.emit(f"*{name} = {text};")
                b.emit(f"{advance};")
        case _:
            b.emit(f"{array.type.name} w = *{name};")
            b.emit(f"{advance};")
            b.values.append(Value("w", array.type, *array.limit))
            b.store(b.array())


def row_names(b: Builder) -> None:
    """A name for a row of an array, which the loops inside write by both names."""
    c, array = b.c, b.array(rank=2)
    if array.style == "flat":
        array.style = "rows" if not array.dims[0].terms else array.style
    if array.style == "flat":
        sparse_rows(b)
        return
    name = b.fresh("r")
    with loop(b) as outer:
        b.element(array, [outer, Index("0", Poly(), Poly(), INT)])
        b.emit(
            f"{array.type.name} *{name} = {c.pick((f'{array.name}[{outer.text}]', f'&{array.name}[{outer.text}][0]'))};"
        )
        with loop(b):
            index = b.index()
            array.dims[1] = array.dims[1].join(index.high + 1)
            read = Value(f"{name}[{index.text}]", array.type, *array.limit)
            value = b.operated(c.pick(("+", "*")), b.read(array), b.leaf())
            if c.often(1, 2):
                b.emit(f"{read.text} = {b.stored(value, array.type, *array.fill)};")
            else:
                b.store(array, None, b.operated("+", read, value))


def _sparse(b: Builder) -> tuple[Array, Array, Array, Poly]:
    """Where rows begin, columns, values, and how many there are."""
    entries = b.c.pick(b.bounds) * 2 + b.c.below(4)
    begins = b.array("index", 1, new=True, types=(INT, LONG, UNSIGNED))
    begins.ordered, begins.content = True, entries + 1
    begins.fill = begins.limit = (0, entries.most(b.largest))
    columns = b.array("index", 1, new=True)
    values = b.array("float" if b.c.often(3, 4) else "int", 1, new=True)
    for array in (columns, values):
        array.dims[0] = array.dims[0].join(entries)
    return begins, columns, values, entries


def sparse_rows(b: Builder) -> None:
    """Sums over bounds that are read: rows of a sparse matrix, some of them empty."""
    c = b.c
    begins, columns, values, entries = _sparse(b)
    assert columns.content is not None
    with loop(b, c.pick(("plain", "typed", "reversed"))) as row:
        begin = b.element(begins, [row])
        end = b.element(begins, [Index(f"{row.text} + 1", row.low + 1, row.high + 1, row.type)])
        ctype = values.type if values.type in _ARITHMETIC else INT
        source = b.array(rank=1)
        where = Index(f"{columns.name}[e]", Poly.of(0), columns.content - 1, columns.type)
        into = c.below(3)
        target = b.array(types=(ctype,), sums=into == 2)
        inside = (ctype.kind == "f" and not b.exact) or ctype.kind == "u"
        spot = b.element(target, [b.index(plain=True) for _ in target.dims])
        one = b.scalar((ctype,))
        if into == 0:
            b.emit(f"{one.name} = {c.pick((0, 1))};")
        if into == 2 and c.often(1, 2):
            b.emit(f"{spot} = 0;")
        with b.block(f"for ({c.pick(('int', begins.type.name))} e = {begin}; e < {end}; e++) {{"):
            b.trips *= entries.most(b.largest)
            factor = b.operated("*", Value(f"{values.name}[e]", values.type, *values.limit), b.read(source, [where]))
            if into == 1 or not (inside or into != 2):
                b.store(values, [Index("e", Poly(), entries - 1, INT)], factor)
            elif into == 2:
                b.add(spot, target, factor)
            else:
                b.add(one.name, one, factor)
        if into == 0:
            b.emit(f"{spot} = {b.stored(Value(one.name, one.type, *one.limit), target.type, *target.fill)};")


def kept(b: Builder) -> None:
    """A loop that data leave, or skip parts of."""
    c = b.c
    with loop(b, "plain"):
        if c.often(1, 2):
            b.store(b.array())
        with loop(b, c.pick(("plain", "offset", "strided"))):
            word = c.pick(("break", "continue"))
            if c.often(1, 2):
                b.emit(f"if ({b.condition()}) {word};")
                b.store(b.array())
            else:
                b.store(b.array())
                b.emit(f"if ({b.condition()}) {word};")
                b.store(b.array())
        if c.chance(1, 2):
            b.store(b.array())


def data_while(b: Builder) -> None:
    """A loop whose condition is data beside a count that ends it."""
    c = b.c
    with loop(b, "plain") as outer:
        name, end = b.fresh("w"), 1 + c.below(6)
        b.emit(f"int {name} = 0;")
        one = b.array(rank=1)
        inner = Index(name, Poly(), Poly.of(end), INT)
        test = b.element(one, [Index(f"{outer.text} + {name}", outer.low, outer.high + end, INT)])
        with b.block(f"while ({name} < {end} && {test} {c.pick(('>', '!=', '<'))} {c.pick((0, 1))}) {{"):
            b.indices.append(inner)
            b.trips *= end
            b.store(b.array())
            b.indices.pop()
            b.emit(f"{name}++;")
        b.values.append(Value(name, INT, 0, end))
        b.store(b.array())


def scratch(b: Builder) -> None:
    """A local array that is filled, then read."""
    c = b.c
    ctype = c.pick((FLOAT, DOUBLE, INT))
    fill, limit, left = b.ranges(ctype, sums=False)
    array = Array(b.fresh("tmp"), ctype, [Poly()], fill, limit, left=left, local=True)
    inside = c.often(1, 2)
    where = len(b.lines) if inside else None
    bound = c.pick(b.bounds)

    def use() -> None:
        with b.block(f"for (int x0 = 0; x0 < {bound.text()}; x0++) {{"):
            index = Index("x0", Poly(), bound - 1, INT, plain=True)
            b.indices.append(index)
            b.trips *= max(1, bound.most(b.largest))
            b.store(array, [index])
        with b.block(f"for (int x1 = 0; x1 < {bound.text()}; x1++) {{"):
            index = Index("x1", Poly(), bound - 1, INT, plain=True)
            other = Index(f"{bound.text()} - 1 - x1", Poly(), bound - 1, INT)
            b.indices.append(index)
            b.trips *= max(1, bound.most(b.largest))
            b.store(b.array(), None, b.operated("+", b.read(array, [c.pick((index, other))]), b.leaf()))

    if inside:
        with loop(b, "plain"):
            where = len(b.lines)
            use()
            b.lines.insert(where, "    " * b.depth + _declared(b, array))
    else:
        use()
        b.before.append(_declared(b, array))


def _declared(b: Builder, array: Array) -> str:
    most = max(1, array.dims[0].most(b.largest))
    return f"{array.type.name} {array.name}[{most}];"


def matrix_product(b: Builder) -> None:
    c = b.c
    kind = "float" if c.often(2, 3) else "int"
    one, other = b.array(kind, 2), b.array(kind, 2)
    target = b.array(rank=2, types=_ARITHMETIC, sums=True)
    with loop(b, "plain") as i, loop(b, c.pick(("plain", "triangular"))) as j:
        through = b.scalar((target.type,)) if c.chance(1, 2) else None
        if through is not None:
            b.emit(f"{through.name} = {c.pick((0, 1))};")
        elif c.often(1, 2):
            b.emit(f"{b.element(target, [i, j])} = 0;")
        done = False
        with loop(b, c.pick(("plain", "triangular", "reversed"))) as k:
            value = b.operated("*", b.read(one, [i, k]), b.read(other, c.pick(([k, j], [j, k]))))
            if through is not None:
                done = b.add(through.name, through, value)
            else:
                done = b.add(b.element(target, [i, j]), target, value)
            if not done:
                b.store(b.array())
        if through is not None:
            b.store(target, [i, j], Value(through.name, through.type, *through.limit))


def weighted(b: Builder) -> None:
    """A weighted mean, of which all weights may be zero."""
    c = b.c
    if b.exact:
        return matrix_product(b)
    w, x = b.array("float", 1), b.array("float", 1)
    one, other = b.scalar(FLOATS), b.scalar(FLOATS)
    with loop(b):
        index = b.index(plain=True)
        b.emit(f"{one.name} += {b.element(w, [index])};")
        b.emit(f"{other.name} += {b.element(w, [index])} * {b.element(x, [index])};")
        if c.chance(1, 2):
            with_mean = f"{one.name} > 0 ? {other.name} / {one.name} : 0"
            b.store(b.array("float"), None, Value(f"({with_mean})", DOUBLE, DOUBLE.low, DOUBLE.high))
    return None


def copies(b: Builder) -> None:
    """memcpy and memset of parts of rows."""
    c = b.c
    one = b.array(rank=1)
    other = b.array(rank=1, types=(one.type,), new=True)
    with loop(b, "plain") as index:
        count = 1 + c.below(4)
        for array in (one, other):
            array.dims[0] = array.dims[0].join(index.high + (count + 1))
        if one.limit == other.fill:
            b.emit(f"memcpy({one.name} + {index.text}, {other.name} + {index.text}, {count} * sizeof *{one.name});")
        else:
            b.emit(f"{one.name}[{index.text}] = {b.stored(b.read(other, [index]), one.type, *one.fill)};")
        b.store(b.array())


def stencil(b: Builder) -> None:
    array, times = b.array(), b.c.chance(1, 3)

    def body() -> None:
        with loop(b, "offset") as index:
            low = (
                index
                if index.low.constant > 0
                else Index(f"{index.text} + 1", index.low + 1, index.high + 1, index.type)
            )
            sides = [low, Index(f"{index.text} + 1", index.low + 1, index.high + 1, index.type), index]
            reads = [b.read(array, [side for _ in array.dims]) for side in sides]
            value = b.operated("+", b.operated("+", reads[0], reads[1]), reads[2])
            b.store(array if b.c.often(1, 2) else b.array(), None, value)

    if times:
        with b.block("for (int step = 0; step < 2; step++) {"):
            b.trips *= 2
            body()
    else:
        body()


NESTS: dict[str, Callable[[Builder], None]] = {
    "walk": walk, "row_names": row_names, "sparse_rows": sparse_rows, "kept": kept, "data_while": data_while,
    "scratch": scratch, "matrix_product": matrix_product, "weighted": weighted, "copies": copies, "stencil": stencil,
}  # fmt: skip
"""Whole nests."""
