"""Programs with something to fuse, as C text; sizes are small and odd, so that remainders have their turn."""

from __future__ import annotations

from dataclasses import dataclass

GEMM = """for (int i = 0; i < 37; i++) for (int j = 0; j < 43; j++) for (int k = 0; k < 29; k++)
    C[i][j] += A[i][k] * B[k][j];"""
GEMM_SHAPES = {"C": (37, 43), "A": (37, 29), "B": (29, 43)}
EACH = "for (int i = 0; i < 37; i++) for (int j = 0; j < 43; j++)"
EACH_DOWN = "for (int i = 36; i >= 0; i--) for (int j = 42; j >= 0; j--)"


@dataclass(frozen=True)
class Fusable:
    """A program in which everything but the heavy nest can be fused."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    """Arrays in the order of the arguments; () for a scalar array of one element."""
    body: str
    into: int
    """Nests that move into another one, or are merged with one."""
    exact: bool = True
    """Integers in, integers out: any order of sums gives the same bits."""
    pragmas: str = ""
    dead: tuple[str, ...] = ()

    @property
    def function(self) -> str:
        return f"run_{self.name}"

    def text(self) -> str:
        arguments = ", ".join(
            f"float {n}[restrict {s[0]}]" + "".join(f"[{e}]" for e in s[1:]) for n, s in self.shapes.items()
        )
        return (
            f"#include <math.h>\nvoid {self.function}({arguments})\n{{\n#pragma scop\n{self.pragmas}\n{self.body}\n"
            "#pragma endscop\n}\n"
        )


def gemm(name: str, before: str, after: str, into: int, exact: bool = True, **more: tuple[int, ...]) -> Fusable:
    """Element-wise nests around a matrix product; `{}` of one stands for its loops."""
    parts = [before.replace("{}", EACH), GEMM, after.replace("{}", EACH)]
    return Fusable(name, GEMM_SHAPES | more, "\n".join(parts), into, exact)


KERNELS = (
    gemm("relu", "", "{} C[i][j] = C[i][j] > 0.0f ? C[i][j] : 0.0f;", 1),
    gemm("relu_double_literals", "", "{} C[i][j] = C[i][j] > 0.0 ? C[i][j] : 0.0;", 1),
    gemm("relu_max", "", "{} C[i][j] = fmaxf(C[i][j], 0.0f);", 1),
    gemm("relu6", "", "{} C[i][j] = C[i][j] < 0.0f ? 0.0f : C[i][j] > 6.0f ? 6.0f : C[i][j];", 1),
    gemm("leaky", "", "{} C[i][j] = C[i][j] > 0.0f ? C[i][j] : 0.25f * C[i][j];", 1),
    gemm("bias_first", "{} C[i][j] = bias[j];", "", 1, bias=(43,)),
    gemm("row_bias_first", "{} C[i][j] = bias[i];", "", 1, bias=(37,)),
    gemm("scaled_first", "{} C[i][j] = 2.0f * C[i][j] + bias[j];", "", 1, bias=(43,)),
    gemm("bias_after", "", "{} C[i][j] += bias[j];", 1, bias=(43,)),
    gemm("scalar_after", "", "{} C[i][j] = C[i][j] - shift[0];", 1, shift=(1,)),
    gemm("residual", "", "{} C[i][j] = C[i][j] + R[i][j];", 1, R=(37, 43)),
    gemm("transposed_residual_stays", "", "{} C[i][j] += R[j][i];", 0, R=(43, 37)),
    gemm("elsewhere", "", "{} D[i][j] = C[i][j] * 2.0f - bias[j];", 1, bias=(43,), D=(37, 43)),
    gemm(
        "chain",
        "{} C[i][j] = 0;",
        """{} C[i][j] = (C[i][j] - mean[j]) * scale[j] + bias[j];
           {} C[i][j] += R[i][j];
           {} C[i][j] = C[i][j] > 0.0f ? C[i][j] : 0.0f;
           {} D[i][j] = C[i][j] * 3.0f;
           {} D[i][j] = D[i][j] - C[i][j];""",
        6,
        mean=(43,),
        scale=(43,),
        bias=(43,),
        R=(37, 43),
        D=(37, 43),
    ),
    gemm("downwards", "{} C[i][j] = bias[j];".replace("{}", EACH_DOWN), "", 1, bias=(43,)),
    gemm("negated", "{} C[i][j] = bias[j];", "{} C[i][j] = -C[i][j];", 2, bias=(43,)),
    gemm("select", "", "{} C[i][j] = C[i][j] >= bias[j] && !(C[i][j] == 1.0f) ? bias[j] : -R[i][j];", 1,
         bias=(43,), R=(37, 43)),
    gemm("sigmoid", "", "{} C[i][j] = 1.0f / (1.0f + expf(-C[i][j]));", 1, exact=False),
    gemm("tanh", "", "{} C[i][j] = tanhf(0.125f * C[i][j]);", 1, exact=False),
    gemm("gelu", "", "{} C[i][j] = 0.5f * C[i][j] * (1.0f + erff(C[i][j] * 0.70710678f));", 1, exact=False),
    gemm("rsqrt", "", "{} C[i][j] = 1.0f / sqrtf(C[i][j] * C[i][j] + 1.0f);", 1, exact=False),
)  # fmt: skip
"""For the epilogue of a microkernel."""

X = "for (int n = 0; n < 3; n++) for (int c = 0; c < 5; c++) for (int h = 0; h < 7; h++) for (int w = 0; w < 9; w++)"
IMAGE = (3, 5, 7, 9)

NESTS = (
    Fusable(
        "bnorm_relu",
        {"y": IMAGE, "t": IMAGE, "x": IMAGE, "mean": (5,), "scale": (5,), "beta": (5,)},
        f"""{X} t[n][c][h][w] = (x[n][c][h][w] - mean[c]) * scale[c] + beta[c];
            {X} y[n][c][h][w] = t[n][c][h][w] > 0.0f ? t[n][c][h][w] : 0.0f;""",
        1,
        pragmas="#pragma polydl dead(t)",
        dead=("t",),
    ),
    Fusable(
        "bnorm_relu_in_place",
        {"y": IMAGE, "x": IMAGE, "mean": (5,), "scale": (5,)},
        f"""{X} y[n][c][h][w] = (x[n][c][h][w] - mean[c]) * scale[c];
            {X} y[n][c][h][w] = y[n][c][h][w] > 0.0f ? y[n][c][h][w] : 0.0f;""",
        1,
    ),
    Fusable(
        "other_order",
        {"y": IMAGE, "x": IMAGE},
        f"""{X} y[n][c][h][w] = x[n][c][h][w] * 2.0f;
            for (int c = 4; c >= 0; c--) for (int w = 0; w < 9; w++) for (int n = 0; n < 3; n++)
                for (int h = 0; h < 7; h++) y[n][c][h][w] += 1.0f;""",
        1,
    ),
    Fusable(
        "layer_norm",
        {"y": (11, 70), "x": (11, 70), "mean": (11,), "var": (11,)},
        """for (int i = 0; i < 11; i++) { mean[i] = 0; for (int j = 0; j < 70; j++) mean[i] += x[i][j]; }
           for (int i = 0; i < 11; i++) {
             var[i] = 0;
             for (int j = 0; j < 70; j++) var[i] += (x[i][j] - mean[i] / 70) * (x[i][j] - mean[i] / 70);
           }
           for (int i = 0; i < 11; i++) for (int j = 0; j < 70; j++)
             y[i][j] = (x[i][j] - mean[i] / 70) / sqrtf(var[i] / 70 + 1e-5f);""",
        2,
        exact=False,
        pragmas="#pragma polydl dead(mean)\n#pragma polydl dead(var)",
        dead=("mean", "var"),
    ),
    Fusable(
        "softmax",
        {"y": (11, 70), "x": (11, 70), "most": (11,), "sum": (11,)},
        """for (int i = 0; i < 11; i++) { most[i] = x[i][0]; for (int j = 1; j < 70; j++)
             most[i] = x[i][j] > most[i] ? x[i][j] : most[i]; }
           for (int i = 0; i < 11; i++) for (int j = 0; j < 70; j++) y[i][j] = expf(x[i][j] - most[i]);
           for (int i = 0; i < 11; i++) { sum[i] = 0; for (int j = 0; j < 70; j++) sum[i] += y[i][j]; }
           for (int i = 0; i < 11; i++) for (int j = 0; j < 70; j++) y[i][j] = y[i][j] / sum[i];""",
        3,
        exact=False,
    ),
    Fusable(
        "shifted_stays",
        {"y": (70,), "x": (71,)},
        """for (int i = 0; i < 70; i++) x[i] = x[i] + 1.0f;
           for (int i = 0; i < 70; i++) y[i] = x[i + 1];""",
        0,
    ),
    Fusable(
        "merging_would_lose_the_parallel_loop",
        {"y": (70,), "x": (71,)},
        """for (int i = 1; i < 70; i++) x[i] = x[i] + 1.0f;
           for (int i = 1; i < 70; i++) y[i] = x[i - 1] * 2.0f;""",
        0,
    ),
    Fusable(
        "pooling",
        {"y": (11, 13), "x": (22, 26)},
        """for (int i = 0; i < 11; i++) for (int j = 0; j < 13; j++) y[i][j] = -100.0f;
           for (int i = 0; i < 11; i++) for (int di = 0; di < 2; di++) for (int j = 0; j < 13; j++)
             for (int dj = 0; dj < 2; dj++) y[i][j] = fmaxf(y[i][j], x[2 * i + di][2 * j + dj]);
           for (int i = 0; i < 11; i++) for (int j = 0; j < 13; j++) y[i][j] = y[i][j] * 2.0f + 1.0f;""",
        2,
    ),
)
"""For loop fusion, rows of vectors and the last iteration of a plain reduction."""
