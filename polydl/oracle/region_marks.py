"""Marks a region in the text of its file by stores, which tell a tracer of its run where the program's memory lies.

before:    void f(int n, float *x, double s) { … #pragma scop ↵ for (…) x[i] = s; ↵ #pragma endscop … }
after:     … polydl_region_numbers[0] = (long)(n); polydl_region_memory[0] = (x); polydl_region_memory[1] = &(s);
           polydl_region_event = 1; for (…) x[i] = s; polydl_region_event = 0; …
No line is moved, so that places in messages stay what they are but for columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.model.scop import Array, BlackBox, Scop, Storage

NUMBERS, MEMORY, EVENT = (f"polydl_region_{word}" for word in ("numbers", "memory", "event"))
"""Objects that are stored to: of each parameter its value, of all memory its address, and 1 where the region begins, 0
where it ends."""
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z_]\w*")
INSIDE = (Storage.REGION, Storage.SCRATCH)
"""What nothing outside of the region knows."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The text of a file with one region marked."""

    text: str
    """C, not preprocessed."""
    parameters: tuple[str, ...]
    """The Scop's parameters, in order of their values."""
    memory: tuple[str, ...]
    """Names of the Scop's arrays and scalars, in order of their addresses."""


def marked(scop: Scop) -> Marked:
    """The file of a Scop with stores around its region."""
    parameters = tuple(name for name in scop.parameters if name not in scop.derived)
    memory = tuple(name for name, array in scop.arrays.items() if array.storage not in INSIDE)
    stores = [f"{NUMBERS}[{i}] = (long)({_value(scop, name)});" for i, name in enumerate(parameters)]
    stores += [f"{MEMORY}[{i}] = {_address(scop, scop.arrays[name])};" for i, name in enumerate(memory)]
    text, region = scop.source.text, scop.region
    entered, left = " ".join([*stores, f"{EVENT} = 1; "]), f" {EVENT} = 0; "
    before = _COMMENTS.sub(" ", text[region.helpers : region.start]).rstrip()
    if before.endswith(")") or re.search(r"\b(?:else|do)$", before):
        entered, left = "{ " + entered, left + "}"
    start, end = text[: region.helpers], text[region.end :]
    declared = f"static long {NUMBERS}[{len(parameters) + 1}]; static int {EVENT}; "
    declared += f"static const volatile void *{MEMORY}[{len(memory) + 1}]; "
    declared += "\n" if text[region.helpers :].lstrip(" \t").startswith("#") else ""
    inside = text[region.start : region.end]
    # A directive begins its line: nothing may come before or behind it there.
    opened = entered + ("\n" if inside.lstrip(" \t").startswith("#") else "")
    closed = ("\n" if re.search(r"(?:^|\n)[ \t]*#[^\n]*$|//[^\n]*$", inside) else "") + left
    closed += "\n" if end.lstrip(" \t").startswith("#") else ""
    return Marked(
        "".join([start, declared, text[region.helpers : region.start], opened, inside, closed, end]),
        parameters,
        memory,
    )


def _value(scop: Scop, name: str) -> str:
    return scop.views[name].value if name in scop.views else name


def _address(scop: Scop, array: Array) -> str:
    view = scop.views.get(array.name)
    if view is not None:
        points = "*" in view.declaration or "[" in view.declaration
        return f"({view.value})" if points else f"&({view.member})"
    return f"&({array.spelled})" if array.is_scalar else f"({array.spelled})"


# Statements that are kept as they are written


@dataclass(frozen=True, slots=True)
class KeptText:
    """A function for a statement's text."""

    name: str
    text: str
    numbers: tuple[str, ...]
    """Its first parameters: parameters of the Scop."""
    memory: tuple[str, ...]
    """Then addresses of arrays and scalars."""
    variables: tuple[str, ...]
    """Then the values of those declarations of `BlackBox.locals` that have one."""


def kept_functions(scop: Scop, *, lanes: bool = False) -> Mapping[str, KeptText]:
    """By statement that is kept as it is written, a function of the file's scope that does what its text does; `lanes`:
    what the text does that adds up in vector lanes, where there is one."""
    found = {}
    for statement in scop.statements:
        if isinstance(statement.body, BlackBox):
            body = statement.body
            written = frozenset(access.array for access in statement.accesses if access.write)
            text = (body.lanes or body.text) if lanes else body.text
            found[statement.name] = _function(scop, statement.name, replace(body, text=text), written)
    return found


def has_lanes(scop: Scop) -> bool:
    """Whether a statement has a text that adds up in vector lanes."""
    return any(isinstance(s.body, BlackBox) and s.body.lanes for s in scop.statements)


def _function(scop: Scop, statement: str, body: BlackBox, written: frozenset[str]) -> KeptText:
    own = {_declared(text) for text, _ in body.locals}
    words = set(_WORDS.findall(body.text)) - own
    named = {**{name: array.spelled for name, array in scop.arrays.items()}, **{name: name for name in scop.parameters}}
    needed: list[str] = []
    left = [name for name, spelled in named.items() if spelled in words]
    while left:
        name = left.pop(0)
        if name in needed or name in own:
            continue
        needed.append(name)
        mentioned = set(_WORDS.findall(scop.arrays[name].declaration)) if name in scop.arrays else set()
        left += [other for other in named if other in mentioned and other != name]
    numbers = tuple(name for name in scop.parameters if name in needed and name not in scop.arrays)
    memory = tuple(name for name in scop.arrays if name in needed)
    once = {scop.arrays[name].spelled: name for name in reversed(memory)}
    memory = tuple(name for name in memory if once[scop.arrays[name].spelled] == name)
    given = [(text, value) for text, value in body.locals if value is not None]
    parameters = [_number(scop, name) for name in numbers]
    before, behind = [], []
    for name in memory:
        array = scop.arrays[name]
        view = scop.views.get(name)
        if not array.is_scalar:
            parameters.append(array.declaration if view is None else view.declaration)
        elif view is not None and "*" in view.declaration:
            parameters.append(view.declaration)
        else:
            parameters.append(f"{array.element.c} *polydl_at_{name}")
            before.append(f"{array.element.c} {array.spelled} = *polydl_at_{name};")
            behind += [f"*polydl_at_{name} = {array.spelled};"] if name in written else []
    parameters += [text for text, _ in given]
    free = [f"{text};" for text, value in body.locals if value is None]
    name = f"polydl_kept_{statement}"
    inside = " ".join([*before, *free, "{", body.text, "}", *behind])
    text = f"static void {name}({', '.join(parameters) or 'void'}) {{ {inside} }}\n"
    return KeptText(name, text, numbers, memory, tuple(text for text, _ in given))


def _declared(declaration: str) -> str:
    """The name that `const int i` declares."""
    return str(_WORDS.findall(declaration)[-1])


def _number(scop: Scop, name: str) -> str:
    """The declaration of a parameter."""
    if name in scop.views:
        return scop.views[name].declaration
    header = scop.region.header
    known = dict(header.parameters) if header is not None else {}
    if name in known:
        return known[name]
    outside = [text for text in scop.region.declared_outside if _declared(text) == name]
    if len(outside) == 1:
        return outside[0]
    # A variable of the function around an inner loop, of which the Scop says the sign alone.
    return f"{'unsigned' if name in scop.unsigned else 'int'} {name}"
