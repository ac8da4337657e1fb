"""The C text of one statement instance: its elements, values and calls at a place in the isl AST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polydl.lower.cexpr import IslPrinter, expression_text
from polydl.model import isl
from polydl.model.scop import Array, Assignment, BlackBox, MicrokernelCall, Statement


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the generated code, chosen so that they cannot collide with the user's."""

    iterator: str
    """Prefix of loop variables."""
    prefix: str
    """Prefix of functions."""
    integer: str
    """Type of loop variables: `int`, or `long` where addresses need it."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A place in the isl AST where a statement instance runs; its methods give the C text of things at this place."""

    build: isl.AstBuild
    back: isl.PwMultiAff
    """{ [AST loops] -> S[i…] }."""
    arrays: Mapping[str, Array]
    printer: IslPrinter

    def affine(self, value: isl.PwAff) -> str:
        """C text of { S[i…] -> [v] }."""
        return self.printer(self.build.expr_from_pw_aff(value.pullback_pw_multi_aff(self.back).coalesce()))

    def element(self, array: str, subscript: isl.PwMultiAff) -> str:
        """C text of the array element at { S[i…] -> A[a…] }."""
        found = self.arrays[array]
        if found.is_scalar:
            return found.name
        where = isl.components(subscript.pullback_pw_multi_aff(self.back))
        subscripts = [self.build.expr_from_pw_aff(one.coalesce()) for one in where]
        if not found.linear:
            return found.name + "".join(f"[{self.printer(s)}]" for s in subscripts)
        strides = found.layout.strides
        if strides is None or any(found.layout.before):
            address = found.layout.accessed(isl.Map.from_pw_multi_aff(subscript)).as_pw_multi_aff()
            (place,) = isl.components(address.pullback_pw_multi_aff(self.back))
            return f"{found.name}[{self.printer(self.build.expr_from_pw_aff(place.coalesce()))}]"
        terms = [
            self.printer(s) if n == 1 else f"{n} * {self.printer.factor(s)}"
            for s, n in zip(subscripts, strides, strict=True)
            if self.printer(s) != "0"
        ]
        return f"{found.name}[{' + '.join(terms) or '0'}]"


def sides(statement: Statement, body: Assignment, at: Instance) -> tuple[str, str]:
    """C texts of target and value."""

    def load(access: int) -> str:
        one = statement.accesses[access]
        return at.element(one.array, one.relation.as_pw_multi_aff())

    return load(body.target), expression_text(body.value, load, at.affine, at.printer.function)


def user_call(body: MicrokernelCall, at: Instance) -> str:
    """C text of a call that the user wrote."""
    arguments = []
    for argument in body.arguments:
        if argument.array is not None and argument.subscript is not None:
            where = isl.PwMultiAff.from_multi_pw_aff(argument.subscript)
            arguments.append(f"&{at.element(argument.array, where)}")
        elif argument.value is not None:
            arguments.append(at.affine(argument.value))
        else:
            arguments.append(argument.text)
    return f"{body.function}({', '.join(arguments)});"


def black_box(body: BlackBox, at: Instance) -> str:
    """The text in braces, behind the declarations that it needs."""
    lines = [
        f"  {declaration}{'' if value is None else f' = {at.affine(value)}'};" for declaration, value in body.locals
    ]
    return "\n".join(["{", *lines, *(f"  {line}" for line in body.text.splitlines()), "}"])
