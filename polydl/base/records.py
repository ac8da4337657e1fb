"""`dataclass` as the standard library has it, made in a third of the time: most of what a start took were its methods.

The standard library writes seven methods of a frozen class as text and compiles each. Here `__init__` alone is: the
others are the same functions for all classes, closed over the names of the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`. Those that are not frozen, that inherit fields or have other options than the usual
        ones are left to it."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        inherits = any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
        if not options.get("frozen") or options.keys() - _USUAL or inherits:
            return dataclasses.dataclass(cls, **options)
        return _made(cls, **options)


_USUAL = {"frozen", "slots", "eq", "weakref_slot"}
_NOT_GIVEN = object()


def _made(cls: type, *, frozen: bool = True, slots: bool = False, eq: bool = True, weakref_slot: bool = False) -> Any:
    """A frozen class of fields."""
    own = {name for name, value in vars(cls).items() if value is not None or name != "__hash__"}
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot)(cls)
    parameters = made.__dataclass_params__  # classes that inherit from this one ask for them
    parameters.frozen, parameters.init, parameters.repr, parameters.eq = frozen, True, True, eq
    fields = dataclasses.fields(made)
    methods: dict[str, Callable[..., Any]] = {"__init__": _init(made, fields), "__repr__": _repr(fields)}
    if eq:
        methods["__eq__"] = _eq([f.name for f in fields if f.compare])
        # The standard library keeps a `__hash__` that the class has; `__eq__` alone sets it to None.
        if "__hash__" not in own:
            methods["__hash__"] = _hash([f.name for f in fields if (f.compare if f.hash is None else f.hash)])
    if slots and "__getstate__" not in own:
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    for name, method in methods.items():
        if name not in own:
            method.__qualname__ = f"{made.__qualname__}.{name}"
            setattr(made, name, method)
    made.__setattr__, made.__delattr__ = _frozen(made, frozenset(f.name for f in fields))
    return made


def _init(made: type[Any], fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_not_given": _NOT_GIVEN}
    parameters, lines = ["self"], []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _not_given else {name}" if field.init else f"_make_{name}()"
            parameters += [f"{name}=_not_given"] if field.init else []
        elif field.default is not MISSING:
            known[f"_default_{name}"] = field.default
            value = name if field.init else f"_default_{name}"  # a slot has taken its place in the class
            parameters += [f"{name}=_default_{name}"] if field.init else []
        elif field.init:
            parameters.append(name)
        else:
            continue
        lines.append(f"    _set(self, {name!r}, {value})")
    lines += ["    self.__post_init__()"] if hasattr(made, "__post_init__") else []
    found: dict[str, Callable[..., None]] = {}
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or "    pass"), known, found)
    return found["__init__"]


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of fields, in their order."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda of: tuple(getattr(of, name) for name in names)


def _eq(names: list[str]) -> Callable[[Any, object], bool]:
    values = _values(names)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: list[str]) -> Callable[[Any], int]:
    values = _values(names)
    return lambda self: hash(values(self))


def _repr(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _frozen(made: type[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return __setattr__, __delattr__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
