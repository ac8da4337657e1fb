"""What random programs are made of: statements in loops."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.bounds import Poly
from tests.fuzz.parts import Array, Index
from tests.fuzz.programs import Builder
from tests.fuzz.values import (
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    SIZE,
    UNSIGNED,
    CType,
    Value,
    binary,
    cast,
    literal,
)

_ARITHMETIC = (FLOAT, DOUBLE, INT, LONG, UNSIGNED)


def store(b: Builder) -> None:
    b.store(b.array())


def accumulate(b: Builder) -> None:
    """A sum in an element, as of a contraction."""
    array = b.array(types=_ARITHMETIC, sums=True)
    product = b.operated(
        "*", b.leaf("float" if array.type.kind == "f" else "any"), b.leaf("float" if array.type.kind == "f" else "any")
    )
    target = b.element(array, [b.index(plain=True) for _ in array.dims])
    if not b.add(target, array, product, b.c.pick(("+=", "-="))):
        store(b)


def scalar_sum(b: Builder) -> None:
    one = b.scalar(_ARITHMETIC)
    b.add(one.name, one, b.expression())


def condition(b: Builder) -> None:
    with b.block(f"if ({b.condition()}) {{"):
        for _ in range(1 + b.c.below(3)):
            b.store(b.array())
    if b.c.chance(1, 3):
        with b.block("else {"):
            b.store(b.array())


def stored_condition(b: Builder) -> None:
    """A condition on what was just stored, which a store under it changes."""
    array = b.array()
    target = b.store(array, [b.index() for _ in array.dims])
    other = b.array()
    b.store(other)
    with b.block(f"if ({target} {b.c.pick(('>', '<', '!='))} {b.c.pick(('0', '1', '3'))}) {{"):
        value = b.operated("-", literal(0), b.read(array)) if b.c.often(1, 2) else literal(b.c.pick((0, 1, 2)))
        b.emit(f"{target} = {b.stored(value, array.type, *array.fill)};")
        b.store(other)
        if b.c.chance(1, 2):
            b.store(array)


def pointer(b: Builder) -> None:
    """A pointer that is set in the loop, beside the array's own name."""
    c, array = b.c, b.array()
    name = b.fresh("q")
    *outer, last = [b.index() for _ in array.dims]
    target = b.element(array, [*outer, last])
    further = f"({last.text})" if " " in last.text else last.text
    b.emit(
        f"{array.type.name} *{name} = "
        + (f"{array.name} + {further};" if not outer and c.often(1, 2) else f"&{target};")
    )
    offset = c.below(3)
    array.dims[-1] = array.dims[-1].join(last.high + (offset + 1))
    through = c.pick((f"*{name}", f"{name}[0]", f"{name}[{offset}]", f"*({name} + {offset})"))
    read = Value(through, array.type, *array.limit)
    with_name = b.operated(c.pick(("*", "+", "-")), read, b.leaf())
    b.emit(f"{through} = {b.stored(with_name, array.type, *array.fill)};")
    match c.below(3):
        case 0:
            with b.block(f"if ({target} > 0) {{"):
                b.emit(f"*{name} = {b.stored(literal(-1), array.type, *array.fill) if array.fill[0] < 0 else '1'};")
                b.store(b.array())
        case 1:
            b.store(b.array(), None, b.operated("+", b.read(array, [*outer, last]), read))
        case _:
            b.store(array)
            b.store(b.array(), None, read)


def alias(b: Builder) -> None:
    """Another name for an array, made in front of the loops."""
    c, array = b.c, b.array(rank=1)
    name, offset = b.fresh("y"), c.below(3)
    b.before.append(f"{array.type.name} *{name} = {array.name}" + (f" + {offset};" if offset else ";"))
    index, other = b.index(), b.index()
    array.dims[0] = array.dims[0].join(index.high + (offset + 1))
    through = Value(f"{name}[{index.text}]", array.type, *array.limit)
    if c.often(1, 2):
        b.store(array, [other], b.operated(c.pick(("+", "*")), through, b.leaf()))
    else:
        value = b.operated(c.pick(("+", "*")), b.read(array, [other]), b.leaf())
        text = b.stored(value, array.type, *array.fill)
        b.emit(f"{through.text} = {text};")
        b.store(b.array(), None, b.read(array))


def helper(b: Builder) -> None:
    """A function of the file that changes its parameters, whose names are the caller's."""
    c, ctype = b.c, b.c.pick((INT, LONG, FLOAT, DOUBLE))
    name, n, s = b.fresh("h"), c.pick(("n", "x", "i")), c.pick(("a", "s", "b"))
    first, second = (f"{ctype.name} {n}", f"{ctype.name} {s}")
    body = c.pick((
        f"{n} = {n} > {s} ? {n} : {s}; return {n} > 5 ? 5 : {n};",
        f"{ctype.name} t = {n}; if ({s} < t) t = {s}; return t < 0 ? 0 : t;",
        f"return {n} > 0 ? {s} : {n};",
        f"if ({n} < {s}) {n} = {s}; {s} = {n}; return {s};",
    ))  # fmt: skip
    b.file.append(f"static {ctype.name} {name}@({first}, {second}) {{ {body} }}")
    values = []
    for _ in range(2):
        value = b.expression(1, "float" if ctype.kind == "f" else "int")
        values.append(b.fit(value, -99, 99) if b.exact or ctype.kind == "i" else value)
    known = all(value.known for value in values)
    ends = (-99, 99) if known else (ctype.low, ctype.high)
    call = Value(f"{name}@({values[0].text}, {values[1].text})", ctype, *ends)
    b.store(b.array(), None, call)


def changing_helper(b: Builder) -> None:
    """A function with effects, whose arguments depend on what it changes."""
    c, array, index = b.c, b.array(rank=1), b.array("index", 1)
    assert index.content is not None
    name = b.fresh("put")
    p, k, at = c.pick((("p", "k", "at"), ("b", "a", "n"), (array.name, index.name, "i")))
    if len({p, k, at}) < 3:
        at = "at"
    number, step = c.below(3), c.below(2)
    array.dims[0] = array.dims[0].join(index.content + step)
    index.dims[0] = index.dims[0].join(Poly.of(3))
    lines = [f"{k}[{number}] = {c.pick((f'{k}[1]', '0', f'{k}[2]', '1' if index.content.constant > 1 else '0'))};"]
    value = b.c.pick(("1", "2", f"{p}[0] > 0 ? 1 : 2", "3"))
    lines.append(f"{p}[{step}] = {value};" if array.fill[1] >= 3 else f"{p}[{step}] = 1;")
    if c.chance(1, 2):
        lines.insert(c.below(2), f"{at} = {at} > 0 ? {at} - 1 : 0; {p}[{at} % {step + 1}] = 1;")
    head = f"static void {name}@({array.type.name} *{p}, {index.type.name} *{k}, int {at})"
    b.file.append(f"{head}\n{{\n    " + "\n    ".join(lines) + "\n}")
    here = b.index(plain=True)
    pointer_text = c.pick((f"{array.name} + {index.name}[{number}]", f"&{array.name}[{index.name}[{number}]]"))
    b.emit(f"{name}@({pointer_text}, {index.name}, {c.pick((here.text, f'{index.name}[{number}]'))});")
    b.store(b.array(), None, b.read(array))


def table(b: Builder) -> None:
    """A constant table of the file."""
    c, name = b.c, b.fresh("table")
    ctype = c.pick((INT, SHORT, UNSIGNED, FLOAT))
    numbers = [c.below(9) for _ in range(4)]
    b.file.append(f"static const {ctype.name} {name}@[4] = {{{', '.join(map(str, numbers))}}};")
    index = b.index()
    where = c.pick((f"{index.text} % 4", f"({index.text}) & 3", str(c.below(4))))
    where = f"({index.text}) % 4" if "%" in where and " " in index.text else where
    b.values.append(Value(f"{name}@[{where}]", ctype, 0, 9))
    b.store(b.array())


def structures(b: Builder) -> None:
    """Members of an array of structures."""
    c = b.c
    there = [a for a in b.arrays if a.members]
    if there:
        array = c.pick(there)
    else:
        members = c.pick(
            ((("x", FLOAT), ("y", FLOAT)), (("x", INT), ("y", FLOAT), ("z", INT)), (("y", DOUBLE), ("x", LONG)))
        )
        name = b.fresh("st")
        b.file.append(f"struct {name}@ {{ {' '.join(f'{t.name} {m};' for m, t in members)} }};")
        array = Array(name, INT, [Poly()], (-9, 9), (-9, 9), members=members)
        b.arrays.append(array)
    (one, first), (other, second) = array.members[:2]
    index, away = b.index(), b.index()
    element = b.element(array, [index])
    if c.chance(1, 2):
        pointer_name = b.fresh("e")
        b.emit(f"struct {array.name}@ *{pointer_name} = &{element};")
        target, read = f"{pointer_name}->{one}", f"{pointer_name}->{other}"
    else:
        target, read = f"{element}.{one}", f"{b.element(array, [away])}.{other}"
    value = b.operated(c.pick(("+", "*", "-")), _member(b, read, second), b.leaf())
    b.emit(f"{target} = {b.stored(value, first, -9, 9)};")
    b.values.append(_member(b, target, first))
    b.store(b.array())
    b.values.pop()


def _member(b: Builder, text: str, ctype: CType) -> Value:
    return Value(text, ctype, -9, 9) if b.exact or ctype.kind != "f" else Value(text, ctype, ctype.low, ctype.high)


def counter(b: Builder) -> None:
    """An unsigned counter that wraps, seen by what is not modular."""
    c, ctype = b.c, b.c.pick((UNSIGNED, UNSIGNED, SIZE, BYTE))
    name, step = b.fresh("k"), c.pick(("2654435761u", "1u", "40503u", "4294967295u", "7"))
    b.before.append(f"{ctype.name} {name} = {c.pick(('0', '4294967290u', '2147483647u', '3'))};")
    array = b.array()
    reads = [
        Index(f"{name} % {(number := c.pick((5, 16, 3)))}u", Poly.of(0), Poly.of(number - 1), UNSIGNED),
        Index(f"({name} & 15u)", Poly.of(0), Poly.of(15), UNSIGNED),
        Index(f"({name} >> {ctype.bits - 3})", Poly.of(0), Poly.of(7), UNSIGNED),
    ]
    wide = Value(name, ctype, ctype.low, ctype.high)
    match c.below(4):
        case 0:
            one = b.array(rank=1)
            b.store(array, None, b.read(one, [c.pick(reads)]))
        case 1:
            b.store(array, None, binary(c.pick((">>", "%")), wide, literal(c.pick((7, 3)))))
        case 2:
            b.store(array, None, Value(f"({name} < {c.pick(('100u', '2147483648u', '3'))})", INT, 0, 1))
        case _:
            b.store(array, None, b.fit(wide, 0, 255))
    b.emit(f"{name} {c.pick(('+=', '+=', '-=', '*='))} {step};")


def hashed(b: Builder) -> None:
    """Arithmetic modulo 2^w of a loop variable or data, under a shift, remainder, comparison or conversion."""
    c = b.c
    if c.often(1, 2) and b.indices:
        one = b.value_of(c.pick(b.indices[::-1]))
    else:
        one = b.read(b.array("int"))
    ctype = c.pick((UNSIGNED, SIZE))
    started = cast(one, ctype) if one.type.kind == "i" else one
    assert started is not None
    h = binary(c.pick(("*", "+", "-")), started, literal(c.pick((2654435761, 40503, 4294967295, 3)), ctype))
    assert h is not None
    if c.chance(1, 2):
        h = b.bind(h)
        h = binary("^", h, binary(">>", h, literal(13)) or h) or h
    seen = binary(
        *(
            (">>", h, literal(16)),
            ("%", h, literal(1000, UNSIGNED)),
            ("<", h, literal(1 << 31, UNSIGNED)),
            (">>", h, literal(28)),
        )[c.below(4)]
    )
    assert seen is not None
    if c.chance(1, 4):
        b.store(b.array("float"), None, b.fit(seen, 0, 1 << 20))
        return
    b.store(b.array(), None, seen)


def mixed(b: Builder) -> None:
    """Types that are converted on the way."""
    c = b.c
    array = b.array(types=(BYTE, CHAR, SHORT, INT, FLOAT, DOUBLE))
    one, other = b.read(b.array("int")), b.read(b.array(c.pick(("float", "int"))))
    value = b.operated(c.pick(("*", "+", "-")), one, other)
    through = cast(value, c.pick((SHORT, FLOAT, LONG, UNSIGNED, BYTE)))
    if through is not None and not (b.exact and through.type.kind == "f" and not through.known):
        value = through
    b.store(array, None, value)


def gather(b: Builder) -> None:
    index = b.array("index")
    assert index.content is not None
    where = Index(b.element(index), Poly.of(0), index.content - 1, index.type)
    source = b.array(rank=1)
    b.store(b.array(), None, b.operated("+", b.read(source, [where]), b.leaf()))


def scatter(b: Builder) -> None:
    index = b.array("index")
    assert index.content is not None
    where = Index(b.element(index), Poly.of(0), index.content - 1, index.type)
    target = b.array(rank=1, types=_ARITHMETIC, sums=True)
    if b.c.often(2, 3):
        if b.add(b.element(target, [where]), target, b.expression(1), b.c.pick(("+=", "-="))):
            return
    b.store(target, [where])


def extreme(b: Builder) -> None:
    """The least or greatest value, at times with its place, which ties make interesting."""
    c, array = b.c, b.array()
    text = b.element(array, [b.index() for _ in array.dims])
    start = b.element(array, [b.constant_index() for _ in array.dims])
    best, operator = b.fresh("m"), c.pick((">", "<", ">=", "<="))
    b.before.append(f"{array.type.name} {best} = {start};")
    place = b.index(plain=True)
    match c.below(4):
        case 0:
            b.emit(f"if ({text} {operator} {best}) {best} = {text};")
        case 1:
            b.emit(f"{best} = {text} {operator} {best} ? {text} : {best};")
        case 2:
            at = b.fresh("at")
            b.before.append(f"int {at} = -1;")
            b.emit(f"if ({text} {operator} {best}) {{ {best} = {text}; {at} = {place.text}; }}")
            b.after.append((at, INT, -1, 1 << 20))
        case _:
            b.emit(f"if ({best} {operator} {text}) {best} = {text};")
    b.after.append((best, array.type, *array.limit))


def product(b: Builder) -> None:
    c = b.c
    ctype = c.pick((FLOAT, DOUBLE, UNSIGNED)) if not b.exact else UNSIGNED
    name = b.fresh("p")
    b.before.append(f"{ctype.name} {name} = 1;")
    value = b.expression(1, "float" if ctype.kind == "f" else "int")
    if ctype.kind == "u":
        value = cast(b.fit(value, -99, 99), UNSIGNED) or value
    b.emit(f"{name} *= {value.text};")
    b.after.append((name, ctype, ctype.low, ctype.high))


def branch_scalars(b: Builder) -> None:
    """Several scalars under one condition, some from temporaries of the branch."""
    c = b.c
    count = b.scalar((INT, UNSIGNED))
    total = b.scalar(_ARITHMETIC)
    with b.block(f"if ({b.condition()}) {{"):
        one = b.bind(b.expression(1))
        b.add(total.name, total, one)
        b.add(count.name, count, literal(1))
        if c.chance(1, 2):
            b.store(b.array(), None, one)


def temporaries(b: Builder) -> None:
    """Names for values, of which one is assigned again."""
    c = b.c
    one = b.bind(b.expression())
    b.values.append(one)
    name, ctype = b.fresh("u"), one.type
    b.emit(f"{ctype.name} {name} = {one.text};")
    if c.chance(1, 2):
        if one.within(-(1 << 40), 1 << 40) and one.low <= 0 <= one.high:
            plain = ctype.kind != "f" or one.known
            b.emit(f"if ({b.condition()}) {name} = {b.stored(b.leaf(), ctype, one.low, one.high) if plain else '0'};")
        else:
            b.emit(f"{name} = {one.text};")
    b.values.append(Value(name, ctype, one.low, one.high))
    b.store(b.array())


def running(b: Builder) -> None:
    """A running value: read behind its update."""
    one = b.scalar((FLOAT, DOUBLE, INT, UNSIGNED))
    if b.add(one.name, one, b.expression(1)):
        b.store(b.array(), None, Value(one.name, one.type, *one.limit))


def recurrence(b: Builder) -> None:
    array = b.array()
    *outer, last = [b.index(plain=True) for _ in array.dims]
    after = Index(f"{last.text} + 1", last.low + 1, last.high + 1, last.type)
    first, second = ([*outer, last], [*outer, after])
    if b.c.chance(1, 3):
        first, second = second, first
    b.store(array, second, b.operated(b.c.pick(("+", "-", "*")), b.read(array, first), b.leaf()))


STATEMENTS: dict[str, Callable[[Builder], None]] = {
    "store": store, "accumulate": accumulate, "condition": condition, "stored_condition": stored_condition,
    "pointer": pointer, "alias": alias, "helper": helper, "changing_helper": changing_helper, "table": table,
    "structures": structures, "counter": counter, "hashed": hashed, "mixed": mixed, "gather": gather,
    "scatter": scatter,
    "scalar_sum": scalar_sum, "extreme": extreme, "product": product, "branch_scalars": branch_scalars,
    "temporaries": temporaries, "running": running, "recurrence": recurrence,
}  # fmt: skip
"""What stands in loops."""
