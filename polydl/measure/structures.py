"""The structures that a region reaches its data through, in a translation unit of the harness.

The region's function has the members as parameters. For the loops as they were written it builds the structures that
these stand in: pointers in them point to the harness's buffers, numbers in them have its values. What a structure holds
itself is initialised and read back in place, as a global array is.
"""

from __future__ import annotations

from collections.abc import Iterator

from polydl.model.scop import Scop, View

_ALIGNED = "__attribute__((aligned(64)))"


class Structures:
    """The structures of a scop."""

    def __init__(self, scop: Scop) -> None:
        self._views = list(scop.views.values())
        self._objects: dict[str, tuple[str, int | None]] = {}
        """What a pointer points to: by the pointer's text, a name and its bytes where they are known."""
        for view in self._views:
            for pointer, size in view.pointers:
                self._objects.setdefault(pointer, (f"polydl_structure_{len(self._objects)}", size))

    def objects(self) -> list[str]:
        """File-scope C: memory for them."""
        return [f"static {_ALIGNED} char {name}[{size}];" for name, size in self._objects.values() if size is not None]

    def address(self, view: View) -> str:
        """C for the address of what a structure holds itself."""
        assert view.inside is not None
        if not view.pointers:
            return f"&{view.member}"
        name, _ = self._objects[view.pointers[-1][0]]
        return f"{name} + {view.inside[0]}"

    def declarations(self) -> Iterator[str]:
        """C of the region's function: the variables that the structures are reached from, and what is in them."""
        declared: set[str] = set()
        for view in self._views:
            if view.root not in declared and view.root_declaration is not None:
                yield f"{view.root_declaration};"
                yield f"__builtin_memset((void *)&{view.root}, 0, sizeof {view.root});"
            declared.add(view.root)
        for pointer, (name, size) in self._objects.items():
            if size is None:
                yield f"static char {name}[sizeof *({pointer})] {_ALIGNED};"
                yield _set(pointer, f"(char *){{{name}}}")
            else:
                yield f'_Static_assert(sizeof *({pointer}) == {size}, "the size of a structure");'
                yield _set(pointer, f"(char *){{{name}}}")
        for view in self._views:
            if view.inside is None:
                yield "{"
                yield f"__typeof__({view.member}) polydl_value = {view.name};"
                yield f"__builtin_memcpy((void *)&{view.member}, &polydl_value, sizeof polydl_value);"
                yield "}"


def _set(pointer: str, value: str) -> str:
    """C that sets a pointer, whatever it points to and is qualified as."""
    return f"__builtin_memcpy((void *)&{pointer}, &{value}, sizeof(void *));"
