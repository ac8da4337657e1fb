"""One product of matrices in many spellings: what people vary, put together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product

M, N, K = 13, 15, 17


@dataclass(frozen=True, slots=True)
class Spelling:
    """One choice of everything that is varied."""

    storage: str
    """Of the matrices: `2d`, `flat`, or `rows`: pointers to rows of flat ones."""
    sums: str
    """Where products are added: `element` of the result, `one` scalar, `many`, one for each unrolled term."""
    factors: str
    """`plain`, `alpha` times the left one, in `locals`, `fma`, or subtracted (`minus`)."""
    unroll: int
    """Terms in one iteration, with a loop over what is left."""
    down: str
    """Loops that run downwards."""
    result: str
    """What becomes of the sum: `set`, `add`, `sub`, `scaled`, `beta`, `both`, `bias`."""
    after: str
    """`none`, or `relu`: what is below zero is replaced."""
    transposed: bool
    """The left matrix is read by columns."""

    def text(self) -> str | None:
        """The C function; None for a choice that contradicts itself."""
        if "k" in self.down if self.unroll > 1 else self.sums == "many":
            return None
        finish = self._finish()
        if finish is None:
            return None
        begin, end = finish
        rows = f"for (int i = 0; i < {M}; i++)"
        columns = f"for (int j = {N - 1}; j >= 0; j--)" if "j" in self.down else f"for (int j = 0; j < {N}; j++)"
        declared = "".join(f"float {name} = 0; " for name in self._names())
        return f"""\
#include <math.h>
void f(float alpha, float beta, {self._parameters()})
{{
    {rows} {{
        {self._pointers()}
        {columns} {{
            {declared}{begin}
            {self._terms()}
            {end}
        }}
    }}
}}
"""

    def _parameters(self) -> str:
        if self.storage != "2d":
            return "const float *restrict A, const float *restrict B, float *restrict C, const float *restrict D"
        shape = f"[{K}][{M}]" if self.transposed else f"[{M}][{K}]"
        return f"const float A{shape}, const float B[{K}][{N}], float C[restrict {M}][{N}], const float D[{N}]"

    def _pointers(self) -> str:
        if self.storage != "rows":
            return ""
        return f"float *c = C + i * {N};" + ("" if self.transposed else f" const float *a = &A[i * {K}];")

    def _left(self, k: str) -> str:
        if self.storage == "2d":
            return f"A[{k}][i]" if self.transposed else f"A[i][{k}]"
        if self.transposed:
            return f"A[({k}) * {M} + i]"
        return f"a[{k}]" if self.storage == "rows" else f"A[i * {K} + {k}]"

    def _element(self) -> str:
        return {"2d": "C[i][j]", "flat": f"C[i * {N} + j]", "rows": "c[j]"}[self.storage]

    def _names(self) -> list[str]:
        return ["s", "t", "u", "v"][: {"element": 0, "one": 1, "many": self.unroll}[self.sums]]

    def _term(self, k: str, to: str) -> str:
        left, right = self._left(k), f"B[{k}][j]" if self.storage == "2d" else f"B[({k}) * {N} + j]"
        match self.factors:
            case "alpha":
                return f"{to} += alpha * {left} * {right};"
            case "locals":
                return f"{{ const float x = {left}; float y = {right}; {to} += x * y; }}"
            case "fma":
                return f"{to} = fmaf({left}, {right}, {to});"
            case "minus":
                return f"{to} -= {left} * {right};"
            case _:
                return f"{to} += {left} * {right};"

    def _terms(self) -> str:
        names = self._names() or [self._element()]
        if self.unroll == 1:
            loop = f"for (int k = {K - 1}; k >= 0; k--)" if "k" in self.down else f"for (int k = 0; k < {K}; k++)"
            return f"{loop} {self._term('k', names[0])}"
        each = [self._term(f"k + {at}" if at else "k", names[at % len(names)]) for at in range(self.unroll)]
        return (
            f"int k; for (k = 0; k + {self.unroll - 1} < {K}; k += {self.unroll}) {{ {' '.join(each)} }} "
            f"for (; k < {K}; k++) {self._term('k', names[0])}"
        )

    def _finish(self) -> tuple[str, str] | None:
        """What is done before and after the loop over the terms."""
        c, names = self._element(), self._names()
        relu = f" {c} = {c} > 0 ? {c} : 0;" if self.after == "relu" else ""
        if not names:
            begin = {"set": f"{c} = 0;", "add": "", "beta": f"{c} *= beta;", "bias": f"{c} = D[j];"}.get(self.result)
            return None if begin is None else (begin, relu)
        total = " + ".join(names)
        if self.after == "relu" and self.result == "bias":
            return "", f"s = {total} + D[j]; {c} = s > 0 ? s : 0;"
        return "", {
            "set": f"{c} = {total};",
            "add": f"{c} += {total};",
            "sub": f"{c} = {c} - ({total});",
            "scaled": f"{c} = alpha * ({total});",
            "beta": f"{c} = ({total}) + {c} * beta;",
            "both": f"{c} = alpha * ({total}) + beta * {c};",
            "bias": f"{c} = {total} + D[j];",
        }[self.result] + relu


CHOICES: dict[str, tuple[object, ...]] = {
    "storage": ("2d", "flat", "rows"),
    "sums": ("element", "one", "many"),
    "factors": ("plain", "alpha", "locals", "fma", "minus"),
    "unroll": (1, 2, 4),
    "down": ("", "j", "k", "jk"),
    "result": ("set", "add", "sub", "scaled", "beta", "both", "bias"),
    "after": ("none", "relu"),
    "transposed": (False, True),
}


def spellings() -> dict[str, str]:
    """Every C text by the choices in it."""
    assert list(CHOICES) == [field.name for field in fields(Spelling)]
    found = {}
    for choice in product(*CHOICES.values()):
        text = Spelling(*choice).text()  # type: ignore[arg-type]
        if text is not None:
            found[" ".join(map(str, choice))] = text
    return found
