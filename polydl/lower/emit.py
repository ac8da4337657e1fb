"""From a scop and its schedule tree to C: the code that replaces the region and the helpers it needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from polydl.base.records import dataclass
from polydl.dependences.scalars import private_scalars
from polydl.kernels.tree_rows import row_options
from polydl.lower.ast import Writer
from polydl.lower.cexpr import COMPLEX_TEXT, HELPER_TEXT, Helpers
from polydl.lower.copies import copies
from polydl.lower.cprint import lines
from polydl.lower.ctree import (
    Block,
    Evaluate,
    Hint,
    If,
    Invoke,
    Name,
    Node,
    Pragma,
    Scope,
    Unary,
)
from polydl.lower.header_names import LIBRARY_NAMES
from polydl.lower.hilbert import curve_prologue
from polydl.lower.instance import Names
from polydl.lower.instance_marks import BEGIN
from polydl.lower.isl_schedule import TreePlan, isl_tree, tree_plan
from polydl.lower.nest_plan import plan_nest
from polydl.lower.packed_ahead import Ahead, derived, given_or_own, offsets, packed_name, texts
from polydl.lower.region import original_text
from polydl.lower.region_storage import declarations, elements, own_rows, storage, unused_storage
from polydl.lower.scratch import NO_MEMORY, OwnMemory, Scratch
from polydl.lower.scratch import Buffer as Memory
from polydl.lower.vector_math import vector_declarations
from polydl.lower.whole_loops import has_whole
from polydl.model import isl
from polydl.model.isl import DEFAULT_QUOTA, quota
from polydl.model.scop import Array, Scop, Source, Storage
from polydl.model.time import map_from_affs
from polydl.model.types import HEADER_NAMES
from polydl.schedule.part_storage import Buffer, part_storage
from polydl.schedule.part_storage import storage as storage_of
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.tree import bands, in_threads, kernels, summed_cut

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_INT_MAX = 2**31 - 1
OTHER_SIZES = "n_"
"""Begins the names of helper functions, behind the prefix, in code for every value of the parameters."""


@dataclass(frozen=True, slots=True)
class Generated:
    """C text of a variant."""

    prologue: tuple[str, ...]
    """File-scope pieces (includes, helper functions, microkernels), in order; equal pieces are needed once."""
    region: str
    """Statements that replace the scop's region, without a newline at the end."""
    prepare: tuple[str, ...] = ()
    """Statements that pack operands ahead of time, for all later runs of the same thread."""
    rows: bool = False
    """Whether innermost loops became calls of vector functions."""
    otherwise: str = ""
    """Statements for other values of the function's integer parameters than those that `region` is made for; empty: the
    original loops."""
    outside: tuple[str, ...] = ()
    """File-scope pieces behind those of `prologue` that call the function of the region, which therefore stand in a
    whole file only."""
    packed: tuple[str, ...] = ()
    """The arrays that are packed ahead of time, in the order in which the function that packs takes them."""
    memory: OwnMemory = NO_MEMORY
    """What `region` takes of its own."""


def names_for(scop: Scop) -> Names:
    """Names that no identifier of the source has."""
    taken = set(_IDENTIFIER.findall(scop.source.text)) - HEADER_NAMES

    def free(stem: str, pattern: str) -> str:
        number = 0
        while any(re.fullmatch(pattern.format(stem=stem + (str(number) if number else "")), t) for t in taken):
            number += 1
        return stem + (str(number) if number else "")

    stems = chain(("c", "t"), (f"c{n}_" for n in count()))
    iterator = next(s for s in stems if not any(re.fullmatch(s + r"\d+", t) for t in taken))
    return Names(iterator, free("polydl", r"{stem}_\w*") + "_", _integer_type(scop))


def _integer_type(scop: Scop) -> str:
    """`int` where every subscript, linear address and loop value stays within it, else `long`."""
    for array in scop.arrays.values():
        if array.layout.size is None or array.layout.size > _INT_MAX:
            return "long"
    for statement in scop.statements:
        for iterator in statement.iterators:
            for value in (isl.greatest(statement.domain, iterator), isl.least(statement.domain, iterator)):
                if value is None or abs(value) > _INT_MAX // 4:
                    return "long"
    return "int"


def generate(
    scop: Scop,
    tree: InOrder,
    *,
    instances: bool = False,
    other_sizes: bool = False,
    operations: int = DEFAULT_QUOTA,
) -> Generated:
    """C text that runs the statements of the scop in the order of a tree, whose parts are written one after the other.

    `instances`: with a line before each statement that says which instance it is (polydl.lower.instance_marks); the
    text is the same otherwise. `other_sizes`: it is to stand beside code for one size, whose helper functions may be of
    another type. Raises QuotaExceeded. Assumes that the tree is legal.
    """
    names = names_for(scop)
    helpers = Helpers(names.prefix + (OTHER_SIZES if other_sizes else ""), set())
    code: list[Node] = []
    scratch = Scratch()
    once = derived(scop, tree)
    buffers = {name: one for name, one in storage_of(scop, tree).items() if name not in once.made}
    for shared in (True, False):
        own = [_memory(scop, b) for b in buffers.values() if b.per_thread is not shared]
        if own:
            scratch.reserve_parts(f"polydl_parts{'' if shared else '_own'}", own, shared=shared)
    beside = _Beside([], [], [])
    with quota("code generation", operations):
        apart = list[Node]()
        for place, part in enumerate(tree.children):
            plan = tree_plan(scop, part, {kernel: plan_nest(scop, kernel, scratch) for kernel in kernels(part)})
            own_code = _written(plan, names, helpers, scratch, beside, instances)
            if place in once.parts:
                apart += own_code
                own_code = [If(Unary("!", Name(packed_name(scop))), Block(tuple(own_code)))]
            code += own_code
    declared = [*storage(scop, buffers, helpers), *unused_storage(scop, code, buffers)]
    code = own_rows(scop, [*declared, *code], helpers, beside.prologue)
    for array in scop.arrays.values():
        if array.storage is Storage.SCRATCH and array.name not in buffers:
            name = f"{array.name}_own" if array.name in once.made else array.name
            _reserve(scratch, replace(array, name=name), helpers, scop.unsigned)
    code = [*given_or_own(scop, beside.ahead, once), *code]
    packed = texts(scop, beside.ahead, once, apart, names, helpers) if beside.ahead else None
    prologue = [*beside.prologue, *helper_texts(helpers, names)]
    if scratch.used:
        prologue.append(scratch.prologue())
        code = scratch.around(code, original_text(scop))
    code = [Hint(BEGIN, ()), *declarations(scop), *code]
    if packed is None:
        made = finished(scop, names, prologue, code, hints=instances)
        return replace(made, rows=bool(beside.rows), memory=scratch.memory)
    made = finished(scop, names, [*prologue, packed.functions], code, hints=instances)
    run, prepare = (tuple(_reprefix(text, names) for text in one) for one in ((packed.run,), packed.prepare))
    return replace(
        made, rows=bool(beside.rows), outside=run, prepare=prepare, packed=packed.arrays, memory=scratch.memory
    )


def _reserve(scratch: Scratch, array: Array, helpers: Helpers, unsigned: Collection[str]) -> None:
    """Memory for an array that a rewrite made."""
    if array.layout.size is not None:
        scratch.reserve(array.name, array.element, array.layout.size * array.element.bytes)
        return
    scratch.reserve_sized(array.name, array.element, elements(array, helpers, unsigned))


@dataclass(frozen=True, slots=True)
class _Beside:
    """What parts need outside of their own lines; writing a part adds to these lists."""

    prologue: list[str]
    ahead: list[Ahead]
    """The operands that are packed ahead of time."""
    rows: list[str]
    """File-scope pieces of vector functions."""


def _written(
    plan: TreePlan,
    names: Names,
    helpers: Helpers,
    scratch: Scratch,
    beside: _Beside,
    instances: bool,
) -> list[Node]:
    """Code that runs one part of a program."""
    code: list[Node] = []
    scop, part = plan.scop, plan.root
    beside.prologue.extend(plan.prologue)
    if any(member.share.curve for band in bands(part) for member in band.members):
        beside.prologue.append(curve_prologue(names.integer))
    made = copies(scop, part, scratch) if summed_cut(part) is not None else None
    code += [made.zeroing(scop, names, helpers)] if made else []
    for one in plan.ahead:
        code.append(one.before(scop, offsets([each.bytes for each in beside.ahead])[-1]))
        beside.ahead.append(one)
    rows = row_options(scop, part)
    within = made.scop if made else scop
    buffers = part_storage(scop, part)
    within = replace(within, arrays={**within.arrays, **_in_buffers(scop, buffers)})
    own = [scratch.thread_line(buffer_name(b.array)) for b in buffers.values() if b.per_thread]
    begin, end = (
        tuple(Evaluate(Invoke(f"polydl_tiles_{what}", ())) for _ in range(plan.in_tiles)) for what in ("begin", "end")
    )
    inside = (*plan.thread_lines, *((made.thread_line(names),) if made else ()), *own)
    bases = {name: _firstelements(plan, buffer) for name, buffer in buffers.items()}
    writer = Writer(
        within,
        names,
        helpers,
        plan.printers,
        inside,
        begin,
        end,
        list(private_scalars(scop)),
        rows,
        instances,
        bases,
        has_whole(scop, part),
    )
    # Loops in no threads begin and end here; in threads each does by itself.
    code += [*begin, writer.write(isl_tree(plan)), *end]
    beside.prologue.extend((*writer.functions, *writer.prologue))
    beside.rows.extend(writer.prologue)
    if writer.streams:
        code += [Pragma("omp parallel")] if in_threads(part) else []
        code += [Evaluate(Invoke("polydl_stream_end", ()))]
    code += [made.adding(scop, names, helpers)] if made else []
    return code


def _firstelements(plan: TreePlan, buffer: Buffer) -> dict[str, isl.PwAff]:
    """By what runs inside of a buffer's loops { S[i…] -> [e] }: the place in the array of the buffer's first element.
    (Of loops with one iteration isl's syntax tree says nothing.)"""
    found: dict[str, isl.PwAff] = {}
    for piece in plan.pieces(plan.root):
        if all(piece.statement in member.affs for member in buffer.within):
            loops = map_from_affs(piece.domain, [piece.at(member) for member in buffer.within])
            found[isl.domain_name(loops)] = buffer.base.pullback_pw_multi_aff(loops.as_pw_multi_aff())
    return found


def buffer_name(array: str) -> str:
    """C name of the pointer to the memory of an array of which a part is there at a time."""
    return f"polydl_part_{array}"


def _memory(scop: Scop, buffer: Buffer) -> Memory:
    """The memory that a buffer takes."""
    name, element = buffer_name(buffer.array), scop.arrays[buffer.array].element
    return Memory(name, element, buffer.bytes, not buffer.per_thread, start=buffer.offset)


def _in_buffers(scop: Scop, buffers: Mapping[str, Buffer]) -> dict[str, Array]:
    """By array with a buffer what it is in the code."""
    return {name: replace(scop.arrays[name], name=buffer_name(name), linear=True, restrict=True) for name in buffers}


def helper_texts(helpers: Helpers, names: Names) -> list[str]:
    """C text of the helper functions that the printed text turned out to need."""
    return [
        (HELPER_TEXT | COMPLEX_TEXT)[h].format(type=names.integer, prefix=helpers.prefix) for h in sorted(helpers.used)
    ]


def finished(
    scop: Scop, names: Names, prologue: Sequence[str], code: Sequence[Node], *, hints: bool = False
) -> Generated:
    """The code in braces, indented as the region is, in names that collide with none of the source's."""
    base = _indentation(scop)
    declared = vector_declarations(code, scop.source.text)
    prologue = [*prologue, *([declared] if declared else [])]
    shown = lines(Scope(tuple(code)), 0, hints=hints)
    text = "\n".join(base + line if line.strip() and not line.startswith("#") else line for line in shown)
    return Generated(tuple(_reprefix(p, names) for p in dict.fromkeys(prologue)), _reprefix(text, names))


def protected(source: Source, pieces: Sequence[str]) -> str:
    """File-scope pieces as one text, out of reach of the macros of the source and of the command line.

    A file may well have `#define n 100`, or an `i` that a header of the system could not bear; so macros with the
    name of anything in the pieces, and those in lower case, are put aside (push_macro: gcc, clang, icc, msvc). What the
    source calls as a header does is another name in that header.
    """
    text = "\n\n".join(piece.strip("\n") for piece in pieces)
    defined = re.findall(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)", source.text, re.MULTILINE)
    on_command_line = [re.split(r"[=(]", f[2:])[0] for f in source.preprocessor_flags if f.startswith("-D")]
    words = set(_IDENTIFIER.findall(text))
    aside = sorted(
        name
        for name in {*defined, *on_command_line}
        if (name in words or name.islower()) and not name.upper().startswith(("POLYDL", "_"))
    )
    before = "".join(f'#pragma push_macro("{name}")\n#undef {name}\n' for name in aside)
    after = "".join(f'\n#pragma pop_macro("{name}")' for name in aside)
    own = sorted((source.declared & LIBRARY_NAMES) - words) if "#include" in text else []
    before += "".join(f"#define {name} polydl_not_{name}\n" for name in own)
    after = "".join(f"\n#undef {name}" for name in own) + after
    return before + text + after if text else ""


def _reprefix(text: str, names: Names) -> str:
    """Use the free prefix in text that was written with the reserved one."""
    stem = names.prefix[:-1]
    if stem == "polydl":
        return text
    own = rf"\b(_*)polydl_(?!(?:{'|'.join(sorted(n.removeprefix('polydl_') for n in HEADER_NAMES))})\b)"
    return re.sub(own, rf"\1{stem}_", re.sub(r"\b(_*)POLYDL_", rf"\1{stem.upper()}_", text))


def _indentation(scop: Scop) -> str:
    """White space in front of the region's first line of code."""
    text = scop.source.text
    first = text.rfind("\n", 0, scop.region.start) + 1
    for line in text[first : scop.region.end].splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip())]
    return ""
