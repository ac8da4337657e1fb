"""Shows that the bodies of copies that convert elements, or put them into words, do what is said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from polydl.prove.bodies import Stored
from polydl.prove.contracts import PackContract
from polydl.prove.integers import Affine, Unreadable, Wrong, number
from polydl.prove.run_time_strides import pack_with_strides
from polydl.prove.running import constant, opaque_arguments, runner
from polydl.prove.symbolic_values import Literal, Load, Operation, Symbol
from polydl.prove.vector_lanes import Lane, Stepped
from polydl.prove.word_copies import Words
from polydl.target.isa import Isa

Word = tuple[int | None, ...]
"""Of each element in a word how far it is from the beginning of the source; None: zero."""


_HIGHEST = Literal("0x80808080u")


def check_converting(
    functions: Mapping[str, Any], contract: PackContract, isa: Isa, width: int, extents: Sequence[int]
) -> None:
    """A copy that is called for so many elements of width and so many steps stores each where it is said to go, zeros
    in what is left of words and panels, and nothing else. Raises Wrong, Unreadable."""
    words, name = contract.words, contract.name
    definition = functions.get(name)
    if words is None or definition is None:
        raise Unreadable(f"the function {name} cannot be read")
    if words.sums:
        raise Unreadable("it adds up columns")
    contract, told = pack_with_strides(functions, contract)
    arguments = opaque_arguments(definition) | {"width": number(width)} | told
    arguments |= {f"extent{k}": number(e) for k, e in enumerate(extents) if f"extent{k}" in arguments}
    running = runner(functions, isa)
    running.run(name, arguments)
    found: dict[int, Word] = {}
    for to, word in (one for stored in running.stored for one in _words(stored, words, name)):
        if to in found:
            raise Wrong(f"{name} stores word {to} twice ({isa.name}, {width} wide)")
        found[to] = word
    wanted = _wanted(contract, words, width, extents)
    zero = (None,) * words.group
    if any(found.pop(to, None) != word for to, word in wanted.items()) or any(one != zero for one in found.values()):
        raise Wrong(f"{name} copies other elements than stated ({isa.name}, {width} wide)")


def _words(stored: Stored, words: Words, name: str) -> Iterator[tuple[int, Word]]:
    """(place, word) of each word that is stored, in every iteration of the loops around."""
    if stored.at.base != "packed":
        raise Wrong(f"{name} stores into {stored.at.base}")
    for at in product(*(range(constant(times)) for _, times in stored.around)):
        values = {counter: value for (counter, _), value in zip(stored.around, at, strict=True)}
        for k, lane in enumerate(stored.lanes):
            yield _number(stored.at.offset, values) + k, _word(lane, words, values, name)


def _word(lane: Lane, words: Words, values: Mapping[str, int], name: str) -> Word:
    if lane == ():
        return (None,) * words.group
    if isinstance(lane, tuple | Stepped):
        raise Wrong(f"{name} stores something else than elements of its source")
    if words.group == 1:
        return (_element(lane, words, values, name),)
    word: Symbol = lane
    if isinstance(word, Operation) and words.flips and word.name == "^" and word.operands[1:] == (_HIGHEST,):
        # All at once.
        word, words = word.operands[0], replace(words, flips=False)
    if not isinstance(word, Operation) or word.name != f"word_{words.group}" or len(word.operands) != words.group:
        raise Wrong(f"{name} stores something else than words of {words.group}")
    return tuple(_element(part, words, values, name) for part in word.operands)


def _element(part: Symbol, words: Words, values: Mapping[str, int], name: str) -> int | None:
    """How far an element is from the beginning of the source, where it is changed as it is said to be."""
    if part == Literal("0"):
        return None
    if words.flips:
        if not isinstance(part, Operation) or part.name != "^" or part.operands[1:] != (Literal("0x80"),):
            raise Wrong(f"{name} does not invert the highest bit of each element")
        part = part.operands[0]
    elif words.widens:
        if not isinstance(part, Operation) or part.name != "widened":
            raise Wrong(f"{name} takes the bits of bf16 for numbers")
        part = part.operands[0]
    if not isinstance(part, Load) or part.at.base != "source":
        raise Wrong(f"{name} stores something else than an element of its source")
    return _number(part.at.offset, values)


def _number(value: Affine, values: Mapping[str, int]) -> int:
    if {term for term, _ in value.terms} - values.keys():
        raise Unreadable("an address that depends on more than its loops")
    return value.constant + sum(n * values[term] for term, n in value.terms)


def _wanted(contract: PackContract, words: Words, width: int, extents: Sequence[int]) -> dict[int, Word]:
    """Every word with an element of the source in it, by its place."""
    assert contract.width_stride is not None
    sizes = [words.extent(k, number(e)).constant for k, e in enumerate(extents)]
    steps = 1
    for size in sizes:
        steps *= size
    found: dict[int, list[int | None]] = {}
    for w, *at in product(range(width), *map(range, extents)):
        panel, inside = divmod(w, contract.block)
        place, lane = 0, 0
        for k, (r, size) in enumerate(zip(at, sizes, strict=True)):
            digit, rest = divmod(r, words.run) if k == words.grouped else (r, 0)
            place, lane = place * size + digit, lane + rest
        at_words, lane = divmod(lane, words.group)
        to = ((panel * steps + place) * contract.block + inside) * words.side + at_words
        word = found.setdefault(to, [None] * words.group)
        word[lane] = w * contract.width_stride + sum(r * (s or 0) for r, s in zip(at, contract.strides, strict=True))
    return {to: tuple(word) for to, word in found.items()}
