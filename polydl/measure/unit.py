"""Writes the translation unit of a candidate: its region as a function of its own.

It has the same form for regions in any function, also in `main`: everything that precedes the function in the user's
file (includes, macros, types, globals, helper functions), the candidate's helper code, then

    static void polydl_region(<sizes>, <arrays>, <scalars by address>) { <locals>; <region>; <scalars back> }

and an exported `polydl_entry` that calls it. Arrays of the function become parameters, globals are used in place. Names
that start with `polydl_` are reserved for this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import jinja2

from polydl.base import resources
from polydl.base.errors import InputError
from polydl.frontend.text.linkage import as_c
from polydl.lower.emit import Generated, protected
from polydl.measure.measurement import ORIGINAL
from polydl.measure.structures import Structures
from polydl.model.scop import Array, Guard, Scop, Statement, Storage
from polydl.model.scop import MicrokernelCall as _MicrokernelCall

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*([a-zA-Z_]*)")
_INT_MAX = 2**31 - 1


def environment() -> jinja2.Environment:
    """The jinja2 environment that renders the templates of the harness."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # C, not HTML
    )


def passed_arrays(scop: Scop) -> tuple[Array, ...]:
    """The arrays and scalars that the harness provides: all but those that only the region knows, in the order of the
    unit's table. Of those that are one array of structures, the first."""
    inner = (Storage.REGION, Storage.SCRATCH)
    found: dict[str, Array] = {}
    for array in scop.arrays.values():
        if array.storage not in inner:
            found.setdefault(array.spelled, array)
    return tuple(found.values())


def size_guards(scop: Scop) -> tuple[Guard, ...]:
    """The function parameters that have a value, in the order of `polydl_sizes`."""
    return tuple(guard for guard in scop.guards if not guard.macro and guard.name not in scop.arrays)


def _is_constant(declared: str) -> bool:
    """Whether what is declared in front of a region is an integer with its value."""
    before, _, value = declared.partition(" = ")
    return bool(value) and not before.startswith("enum {") and "*" not in before


def original_code(scop: Scop) -> Generated:
    """The region as it is written in the user's file, as a candidate."""
    return Generated((), scop.source.text[scop.region.start : scop.region.end])


def written_arrays(scop: Scop) -> frozenset[str]:
    """Names of the arrays that some statement writes."""
    return frozenset(access.array for s in _all_statements(scop) for access in s.accesses if access.write)


def _all_statements(scop: Scop) -> Iterator[Statement]:
    for statement in scop.statements:
        yield statement
        if isinstance(statement.body, _MicrokernelCall):
            yield from statement.body.inner


def unit_text(scop: Scop, name: str, code: Generated, *, whole: bool = False) -> str:
    """The C text of the translation unit of a candidate, or of the original, of this name.

    `whole` includes what follows the function in the user's file, for helpers that are defined after their use. By
    default it is left out, so that the compiler inlines calls of the region as it does in the user's program.
    Raises InputError when the scop has parameters without a value.
    """
    if scop.parameters:
        raise InputError(
            f"missing size: '{scop.parameters[0]}' has no value, so nothing can be run",
            scop.span,
            "give it with --size NAME=VALUE (a function parameter) or -D NAME=VALUE (a macro)",
        )
    text, region = as_c(scop.source.text), scop.region
    before, after = text[: region.helpers], text[region.helpers :]
    file_line = f'#line {{}} "{_c_string(str(scop.source.path))}"\n'
    written = written_arrays(scop)
    parameters, arguments, declarations, stores, bindings, table, hidden = [], [], [], [], [], [], []
    structs = Structures(scop)
    for i, guard in enumerate(size_guards(scop)):
        parameters.append(f"{'int' if abs(guard.value) <= _INT_MAX else 'long'} {guard.name}")
        arguments.append(f"polydl_sizes[{i}]")
    # Constants of the function, which the extents of its arrays may name.
    # Pointers with a value count from those arrays.
    constants = [text for text in region.declared_outside if _is_constant(text)]
    enumerators = [text for text in region.declared_outside if text.startswith("enum {")]
    for text in constants:
        declared, _, value = text.partition(" = ")
        parameters.append(declared)
        arguments.append(value)
    for i, array in enumerate(passed_arrays(scop)):
        is_global = array.storage is Storage.GLOBAL
        if is_global:
            # Of a structure one member is reached by itself, in a way that only the program knows.
            place = f"polydl_place_{i}" if array.static and not array.const and array.members is None else ""
            if place:
                hidden.append((place, array.spelled, f"{array.spelled}{_subscripts(array)}"))
            table.append(_global_row(array, place))
            if not array.is_scalar and not array.const:
                bindings.append(_bind_global(array, i))
        elif (view := scop.views.get(array.spelled)) is not None and view.inside is not None:
            address = structs.address(view)
            table.append(f"    {{sizeof({array.element}), {view.inside[1]}, 0, (void *)({address})}},")
            arguments.append(f"(void *)({address})")
            parameters.append(_with_restrict(array))
        else:
            table.append(f"    {{{_element_size(array)}, 0, 0, 0}},")
            arguments.append(f"polydl_pointers[{i}]")
            if array.is_scalar:
                parameters.append(f"{array.element} *polydl_scalar_{i}")
                declarations.append(f"{array.declaration} = *polydl_scalar_{i};")
                if array.name in written:
                    stores.append(f"*polydl_scalar_{i} = {array.name};")
            else:
                parameters.append(_with_restrict(array))
    declarations += _laid_out(scop)
    declarations += [f"{text};" for text in region.declared_outside if text not in (*constants, *enumerators)]
    declarations += [f"{name} = {value};" for name, value in region.starts.items() if name not in scop.arrays]
    declarations += structs.declarations()
    directives = "\n".join(_directives(text[region.helpers : region.start]))
    # The rest of the file closes the conditionals that are open before the function.
    open_conditionals = _open_conditionals(directives if whole else before + "\n" + directives)
    its_line = f'#line 1 "variant {_c_string(name)}"\n'
    line = file_line.format(text.count("\n", 0, region.start) + 1) if name == ORIGINAL else its_line
    return (
        environment()
        .get_template("harness_unit.c.j2")
        .render(
            before=file_line.format(1) + before + "\n" + directives + "\n" + "#endif\n" * open_conditionals,
            prologue="\n".join(
                [
                    *(f"{text};" for text in enumerators),
                    *structs.objects(),
                    its_line + protected(scop.source, code.prologue),
                ]
            ),
            parameters=", ".join(parameters) or "void",
            declarations="\n".join(declarations),
            region=line + code.region,
            prepare="\n".join(code.prepare),
            stores="\n".join(stores),
            bindings="\n".join(f"    {binding}" for binding in bindings),
            arguments=", ".join(arguments),
            table="\n".join(table),
            hidden=hidden,
            after=file_line.format(before.count("\n") + 1) + after if whole else "",
        )
    )


def _subscripts(array: Array) -> str:
    """C's subscripts of an element, in `polydl_at`."""
    return "".join(f"[polydl_at[{k}]]" for k in range(array.subscripts))


def _global_row(array: Array, place: str = "") -> str:
    """The table row of a global array. Of a global pointer (`float *A;`), `&A[0]` has the type of the variable.
    `place`: another name for where it is."""
    sizes = f"{_element_size(array)}, sizeof({array.spelled})"
    pointer = "0" if array.is_scalar else _is_pointer(array.spelled)
    return f"    {{{sizes}, {pointer}, (void *){place or f'&{array.spelled}'}}},"


def _element_size(array: Array) -> str:
    """C for the bytes of an element; wrong on purpose where structures are not as large as they were taken to be."""
    if array.members is None or array.storage is not Storage.GLOBAL:
        return f"sizeof({array.element})"
    whole = f"sizeof({array.spelled}{'[0]' * (array.subscripts - 1)})"
    return f"{whole} == {array.members.bytes} ? sizeof({array.element}) : {whole}"


def _laid_out(scop: Scop) -> list[str]:
    """C of the region's function: that structures whose members are checked by their types are as large as they were
    taken to be."""
    mixed = [array for array in passed_arrays(scop) if array.members is not None and array.members.of]
    return [
        f"_Static_assert(sizeof({array.spelled}{'[0]' * (array.subscripts - 1)}) == {array.members.bytes}, "
        f"\"members of '{array.spelled}' of several types are not where their alignments put them: is it packed? \"\n"
        '"then use members of one type in a region");'
        for array in mixed
        if array.members is not None
    ]


def _bind_global(array: Array, index: int) -> str:
    """C that points a global pointer to the buffer of the harness; empty for an array."""
    return (
        f"if ({_is_pointer(array.spelled)}) "
        f"__builtin_memcpy((void *)&{array.spelled}, &polydl_pointers[{index}], sizeof(void *));"
    )


def _is_pointer(name: str) -> str:
    return f"__builtin_types_compatible_p(__typeof__({name}), __typeof__(&({name})[0]))"


def _with_restrict(array: Array) -> str:
    """The parameter declaration of an array. A local array aliases no other, which the parameter says by `restrict`."""
    if not array.restrict or "restrict" in array.declaration:
        return array.declaration
    return re.sub(rf"\b{re.escape(array.spelled)}\s*\[", f"{array.spelled}[__restrict__ ", array.declaration, count=1)


def _c_string(text: str) -> str:
    """The contents of a C string literal for a file name. Newlines, which it cannot hold, become `?`."""
    return re.sub(r"[\r\n]", "?", text.replace("\\", "\\\\").replace('"', '\\"'))


def _logical_lines(text: str) -> Iterator[str]:
    """The logical lines of a text: continued lines joined, with their newlines, and comments replaced by spaces."""
    blanked = re.sub(
        r"//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
        lambda m: m.group(1) or " " + "\n" * m.group(0).count("\n"),
        text.replace("\r\n", "\n"),
        flags=re.DOTALL,
    )
    line = ""
    for piece in blanked.split("\n"):
        line += piece
        if piece.endswith("\\"):
            line += "\n"
        else:
            yield line
            line = ""
    if line:
        yield line


def _directives(text: str) -> list[str]:
    """The preprocessor directives in the text before the region, without pragmas."""
    return [line for line in _logical_lines(text) if (m := _DIRECTIVE.match(line)) and m.group(1) != "pragma"]


def _open_conditionals(text: str) -> int:
    """The number of `#if`s without `#endif` in the text."""
    depth = 0
    for line in _logical_lines(text):
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        if match.group(1) in ("if", "ifdef", "ifndef"):
            depth += 1
        elif match.group(1) == "endif":
            depth -= 1
    return max(depth, 0)
