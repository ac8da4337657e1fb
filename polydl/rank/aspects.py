"""What variants have in common, as words: which of them are likely to miss their estimates alike.

The words are made of recipes, for any transform: its kind with each of its fields and, of fields that are lists (an
order of loops, the reductions of a kernel), also the first, the last and the last two elements. No transform is named
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from polydl.rank.ranker import FloatArray
from polydl.schedule.recipe import Recipe


def words_of(recipe: Recipe) -> frozenset[str]:
    """The words of a recipe, as `S1 Microkernel m=6`.

    >>> from polydl.schedule.transforms import Parallelize
    >>> from polydl.schedule.recipe import NestRecipe
    >>> sorted(words_of(Recipe((NestRecipe("S0", (Parallelize(("i",)),)),))))
    ['S0 Parallelize', "S0 Parallelize loops=('i',)"]
    """
    return frozenset(word for nest in recipe.nests for one in nest.transforms for word in _words(nest.nest, one))


def _words(nest: str, transform: msgspec.Struct) -> Iterator[str]:
    fields: dict[str, Any] = msgspec.to_builtins(transform)
    kind = f"{nest} {fields.pop('transform')}"
    yield kind
    # A kind that a nest may have several of begins with what each is about: the loop, the operand.
    names = list(fields)
    if names and isinstance(first := fields[names[0]], str):
        kind = f"{kind} {names[0]}={first}"
        yield kind
    for name, value in fields.items():
        yield f"{kind} {name}={value}"
        if isinstance(value, tuple) and len(value) > 1:
            yield f"{kind} {name} from {value[0]}"
            yield f"{kind} {name} to {value[-1]}"
            yield f"{kind} {name} to {value[-2:]}"


def shared_words(recipes: Sequence[Recipe]) -> FloatArray:
    """(V, W) one row per recipe: of length 1, so that the product of two rows is the cosine of the angle between their
    words. Words that all or only one of the recipes have are left out; a recipe without any other has a row of zeros.
    """
    found = [words_of(recipe) for recipe in recipes]
    counts: dict[str, int] = {}
    for words in found:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    telling = sorted(word for word, count in counts.items() if 1 < count < len(recipes))
    place = {word: i for i, word in enumerate(telling)}
    rows = np.zeros((len(recipes), len(telling)))
    for row, words in zip(rows, found, strict=True):
        row[[place[word] for word in words if word in place]] = 1.0
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))
