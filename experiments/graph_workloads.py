"""The programs of `graphs.py`: C as people write it, its arrays, what computes the same in torch, the exact result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from native import KERNELS

ENCODER = KERNELS.parents[1] / "tests" / "dependences" / "encoder_layer.c"

Peers = dict[str, Callable[[], Any]]


class Workload(ABC):
    """A program of several nests."""

    name: str
    constant: tuple[str, ...] = ()
    """Parameters whose contents stay the same from call to call: weights."""

    @abstractmethod
    def source(self) -> tuple[str, Mapping[str, int]]:
        """C and its sizes."""

    @abstractmethod
    def arrays(self, torch: Any) -> dict[str, Any]:
        """By name; the last one is the result."""

    @abstractmethod
    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        """What computes the same, by name; the first one is held to."""

    @abstractmethod
    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        """In double precision."""

    @property
    @abstractmethod
    def operations(self) -> float:
        """Of the products."""


@dataclass(frozen=True, slots=True)
class Attention(Workload):
    """Attention of all heads of a batch."""

    name: str
    heads: int
    """Of queries, of all of the batch."""
    length: int
    """Keys."""
    depth: int
    mask: bool = False
    """A number is added to each score."""
    causal: bool = False
    """Query i sees keys up to i, counted from the end where there are fewer queries than keys."""
    group: int = 1
    """Heads of queries that share one of keys and values."""
    queries: int = 0
    """0: as many as keys."""
    lengths: bool = False
    """Only so many keys of each head count."""
    bf16: bool = False
    online: bool = False
    """Written with a running maximum."""

    def source(self) -> tuple[str, Mapping[str, int]]:
        defines = {
            "MASK": self.mask, "CAUSAL": self.causal, "LENGTHS": self.lengths, "BF16": self.bf16,
            f"GROUP {self.group}": self.group > 1, f"T {self.queries}": self.queries > 0,
        }  # fmt: skip
        head = f"#define SCALE {1 / math.sqrt(self.depth)!r}f\n"
        head += "".join(f"#define {name}\n" for name, given in defines.items() if given)
        file = "attention_online.c" if self.online else "attention.c"
        sizes = {"HEADS": self.heads, "S": self.length, "D": self.depth}
        return head + (KERNELS / file).read_text(encoding="utf-8"), sizes

    def arrays(self, torch: Any) -> dict[str, Any]:
        rows, kind = self.queries or self.length, torch.bfloat16 if self.bf16 else torch.float32
        keys = (self.heads // self.group, self.length, self.depth)
        made = {"Q": torch.randn(self.heads, rows, self.depth), "K": torch.randn(keys), "V": torch.randn(keys)}
        made = {name: array.to(kind) for name, array in made.items()}
        made |= {"mask": torch.randn(rows, self.length)} if self.mask else {}
        if self.lengths:
            made["lengths"] = torch.randint(1, self.length + 1, (self.heads,), dtype=torch.int32)
        return {**made, "O": torch.zeros(self.heads, rows, self.depth, dtype=kind)}

    def _added(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        """(heads or 1, queries, keys) what is added to scores; None for nothing."""
        if self.mask:
            return arrays["mask"][None]
        rows = self.queries or self.length
        key = torch.arange(self.length)
        if self.causal:
            seen = key <= torch.arange(rows)[:, None] + self.length - rows
        elif self.lengths:
            seen = (key < arrays["lengths"][:, None, None]).expand(self.heads, rows, self.length)
        else:
            return None
        return torch.where(seen, 0.0, -math.inf).reshape(-1, rows, self.length)

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        q, k, v = (arrays[name].unsqueeze(0) for name in "QKV")
        few, grouped = (k, v), self.group > 1
        if grouped:
            # The flash kernel and the formula take as many heads of keys as of queries: these are made before they are
            # timed, and are more to read.
            k, v = (one.repeat_interleave(self.group, 1).contiguous() for one in few)
        own = self.causal and not self.queries
        added = self._added(torch, arrays)
        mask = None if added is None or own else added.unsqueeze(0).to(q.dtype)
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        sdpa, backend = torch.nn.functional.scaled_dot_product_attention, torch.nn.attention

        def by_math() -> Any:
            with backend.sdpa_kernel(backend.SDPBackend.MATH):
                return sdpa(q, *few, attn_mask=mask, is_causal=own, enable_gqa=grouped)

        scores_mask = None if added is None else added.to(q.dtype)

        def plain(q: Any, k: Any, v: Any) -> Any:
            scores = q @ k.transpose(-1, -2) / math.sqrt(self.depth)
            return torch.softmax(scores if scores_mask is None else scores + scores_mask, -1) @ v

        induced = torch.compile(plain)
        return {
            "flash": lambda: flash(q, k, v, 0.0, own, attn_mask=mask)[0],
            "math": by_math,
            "inductor": lambda: induced(q, k, v),
        }

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        q, k, v = (arrays[name].double() for name in "QKV")
        k, v = (one.repeat_interleave(self.group, 0) for one in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.depth)
        added = self._added(torch, arrays)
        return torch.softmax(scores if added is None else scores + added.double(), -1) @ v

    @property
    def operations(self) -> float:
        rows = self.queries or self.length
        return 4.0 * self.heads * rows * self.length * self.depth * (0.5 if self.causal else 1.0)


@dataclass(frozen=True, slots=True)
class Perceptron(Workload):
    """Layers, each a product, a bias and a ReLU. Of bfloat16 with sums in float, or fp32."""

    name: str
    batch: int
    widths: tuple[int, ...]
    bf16: bool = False

    @property
    def constant(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"W{n}" for n in range(1, len(self.widths)))

    def source(self) -> tuple[str, Mapping[str, int]]:
        last = len(self.widths) - 1
        real = "polydl_bf16" if self.bf16 else "float"
        value, stored = ("polydl_to_float", "polydl_to_bf16") if self.bf16 else ("", "")
        arguments, locals_, body = [f"const {real} X[restrict {self.batch}][{self.widths[0]}]"], [], []
        for n, (k, m) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            arguments += [f"const {real} W{n}[restrict {k}][{m}]", f"const float b{n}[restrict {m}]"]
            before, after = "X" if n == 1 else f"h{n - 1}", "Y" if n == last else f"h{n}"
            locals_ += [f"    static {real} {after}[{self.batch}][{m}];"] if n < last else []
            body.append(f"""    for (int i = 0; i < {self.batch}; i++)
        for (int j = 0; j < {m}; j++) {{
            float s = b{n}[j];
            for (int k = 0; k < {k}; k++)
                s += {value}({before}[i][k]) * {value}(W{n}[k][j]);
            {after}[i][j] = {stored}(s > 0.0f ? s : 0.0f);
        }}""")
        arguments.append(f"{real} Y[restrict {self.batch}][{self.widths[-1]}]")
        lines = ["#include <polydl.h>"] if self.bf16 else []
        lines += [f"void mlp({', '.join(arguments)})", "{", *locals_, "#pragma scop", *body, "#pragma endscop", "}"]
        return "\n".join(lines) + "\n", {}

    def arrays(self, torch: Any) -> dict[str, Any]:
        kind = torch.bfloat16 if self.bf16 else torch.float32
        made = {"X": torch.randn(self.batch, self.widths[0]).to(kind)}
        for n, (k, m) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            made |= {f"W{n}": (torch.randn(k, m) / math.sqrt(k)).to(kind), f"b{n}": torch.randn(m).abs()}
        return {**made, "Y": torch.zeros(self.batch, self.widths[-1], dtype=kind)}

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        layers, x = range(1, len(self.widths)), arrays["X"]
        weights = [arrays[f"W{n}"].t().contiguous() for n in layers]
        biases = [arrays[f"b{n}"].to(x.dtype) for n in layers]
        packed = [torch.ops.mkldnn._reorder_linear_weight(w, self.batch) for w in weights]

        def one_dnn() -> Any:
            y = x
            for w, b in zip(packed, biases, strict=True):
                y = torch.ops.mkldnn._linear_pointwise(y, w, b, "relu", [], "")
            return y

        linears = []
        for w, b in zip(weights, biases, strict=True):
            linear = torch.nn.Linear(w.shape[1], w.shape[0], dtype=x.dtype)
            linear.weight.data, linear.bias.data = w, b
            linears += [linear, torch.nn.ReLU()]
        model = torch.nn.Sequential(*linears).eval()
        induced = torch.compile(model)
        return {"onednn": one_dnn, "eager": lambda: model(x), "inductor": lambda: induced(x)}

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        x = arrays["X"].double()
        for n in range(1, len(self.widths)):
            x = torch.relu(x @ arrays[f"W{n}"].double() + arrays[f"b{n}"].double())
        return x

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * sum(k * m for k, m in zip(self.widths, self.widths[1:], strict=False))


@dataclass(frozen=True, slots=True)
class Quantised(Workload):
    """Layers of bytes: sums of u8 less its zero point times s8, scaled per column, a ReLU, rounded to u8 (Li et al.,
    "oneDNN Graph Compiler", CGO 2024, fig. 5). The same in C and in oneDNN to the bit but for ties of rounding."""

    name: str
    batch: int
    widths: tuple[int, ...]
    zero: int = 7
    """Of the input; what a ReLU gives has zero point 0."""

    @property
    def constant(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"W{n}" for n in range(1, len(self.widths)))

    def source(self) -> tuple[str, Mapping[str, int]]:
        last = len(self.widths) - 1
        arguments, locals_, body = [f"const uint8_t X[restrict {self.batch}][{self.widths[0]}]"], [], []
        for n, (k, m) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            arguments += [f"const int8_t W{n}[restrict {k}][{m}]", f"const float b{n}[restrict {m}]"]
            arguments += [f"const float scale{n}[restrict {m}]"]
            before, after = "X" if n == 1 else f"h{n - 1}", "Y" if n == last else f"h{n}"
            locals_ += [f"    static uint8_t {after}[{self.batch}][{m}];"] if n < last else []
            zero = f" - {self.zero}" if n == 1 else ""
            body.append(f"""    for (int i = 0; i < {self.batch}; i++)
        for (int j = 0; j < {m}; j++) {{
            int32_t s = 0;
            for (int k = 0; k < {k}; k++)
                s += ({before}[i][k]{zero}) * W{n}[k][j];
            {after}[i][j] = (uint8_t)lrintf(fminf(fmaxf((float)s * scale{n}[j] + b{n}[j], 0.0f), 255.0f));
        }}""")
        arguments.append(f"uint8_t Y[restrict {self.batch}][{self.widths[-1]}]")
        lines = ["#include <math.h>", "#include <stdint.h>", f"void mlp({', '.join(arguments)})", "{", *locals_]
        return "\n".join([*lines, "#pragma scop", *body, "#pragma endscop", "}"]) + "\n", {}

    def arrays(self, torch: Any) -> dict[str, Any]:
        made = {"X": torch.randint(0, 256, (self.batch, self.widths[0]), dtype=torch.uint8)}
        for n, (k, m) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            made[f"W{n}"] = torch.randint(-127, 128, (k, m), dtype=torch.int8)
            made[f"b{n}"] = torch.rand(m) * 20
            made[f"scale{n}"] = (0.5 + torch.rand(m)) / (100.0 * math.sqrt(k))
        return {**made, "Y": torch.zeros(self.batch, self.widths[-1], dtype=torch.uint8)}

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        layers, x = range(1, len(self.widths)), arrays["X"]
        packed, steps = torch.ops.onednn.qlinear_prepack, []
        shape = [self.batch, self.widths[0]]
        for n in layers:
            w = packed(arrays[f"W{n}"].t().contiguous(), [self.batch, self.widths[n - 1]])
            zeros = torch.zeros(self.widths[n], dtype=torch.int64)
            steps.append((w, arrays[f"scale{n}"], zeros, arrays[f"b{n}"], self.zero if n == 1 else 0))
        linear = torch.ops.onednn.qlinear_pointwise

        def qlinear() -> Any:
            y = x
            for w, scales, zeros, bias, zero in steps:
                y = linear(y, 1.0, zero, w, scales, zeros, bias, 1.0, 0, torch.uint8, "relu", [], "")
            return y

        assert list(x.shape) == shape
        return {"qlinear": qlinear}

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        x, zero = arrays["X"].double(), self.zero
        for n in range(1, len(self.widths)):
            sums = (x - zero) @ arrays[f"W{n}"].double()
            x = (sums * arrays[f"scale{n}"].double() + arrays[f"b{n}"].double()).clamp(0, 255).round()
            zero = 0
        return x

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * sum(k * m for k, m in zip(self.widths, self.widths[1:], strict=False))


@dataclass(frozen=True, slots=True)
class Encoder(Workload):
    """An encoder layer of BERT: attention with a mask on the keys, two norms, two layers with GELU between them. Its
    file has the sizes."""

    name: str
    length: int
    width: int
    heads: int
    inner: int
    constant = ("wq", "wk", "wv", "wo", "w1", "w2")

    def source(self) -> tuple[str, Mapping[str, int]]:
        text = ENCODER.read_text(encoding="utf-8")
        sizes = {"S": self.length, "E": self.width, "H": self.heads, "D": self.width // self.heads, "F": self.inner}
        assert all(f"#define {name} {value} " in text for name, value in sizes.items())
        return text, {}

    def arrays(self, torch: Any) -> dict[str, Any]:
        s, e, f = self.length, self.width, self.inner
        made = {"x": torch.randn(s, e), "mask": torch.randn(s)}
        for name, shape in (("q", (e, e)), ("k", (e, e)), ("v", (e, e)), ("o", (e, e)), ("1", (e, f)), ("2", (f, e))):
            made |= {f"w{name}": torch.randn(shape) / math.sqrt(shape[0]), f"b{name}": torch.randn(shape[1])}
        made |= {name: torch.randn(e) for name in ("g1", "n1", "g2", "n2")}
        return {**made, "out": torch.zeros(s, e)}

    def _layer(self, torch: Any, a: Mapping[str, Any]) -> Any:
        functional, heads, depth = torch.nn.functional, self.heads, self.width // self.heads

        def apart(rows: Any) -> Any:
            return rows.view(self.length, heads, depth).transpose(0, 1)

        q, k, v = (apart(a["x"] @ a[f"w{n}"] + a[f"b{n}"]) for n in "qkv")
        scores = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(depth) + a["mask"], -1)
        o = (scores @ v).transpose(0, 1).reshape(self.length, self.width)
        y = functional.layer_norm(o @ a["wo"] + a["bo"] + a["x"], (self.width,), a["g1"], a["n1"], 1e-12)
        h = functional.gelu(y @ a["w1"] + a["b1"])
        return functional.layer_norm(h @ a["w2"] + a["b2"] + y, (self.width,), a["g2"], a["n2"], 1e-12)

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        return modules(torch, self._layer, arrays, ("x", "mask"))

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        return self._layer(torch, {name: array.double() for name, array in arrays.items()})

    @property
    def operations(self) -> float:
        s, e = self.length, self.width
        return 2.0 * s * (4 * e * e + 2 * e * self.inner + 2 * s * e)


@dataclass(frozen=True, slots=True)
class Lstm(Workload):
    """One step of an LSTM cell on a batch."""

    name: str
    batch: int
    inputs: int
    width: int
    constant = ("W", "U")

    def source(self) -> tuple[str, Mapping[str, int]]:
        return (KERNELS / "lstm_step.c").read_text(encoding="utf-8"), {
            "B": self.batch, "I": self.inputs, "N": self.width,
        }  # fmt: skip

    def arrays(self, torch: Any) -> dict[str, Any]:
        b, i, n = self.batch, self.inputs, self.width
        return {
            "X": torch.randn(b, i), "H": torch.randn(b, n), "C": torch.randn(b, n),
            "W": torch.randn(i, 4 * n) / math.sqrt(i), "U": torch.randn(n, 4 * n) / math.sqrt(n),
            "b": torch.randn(4 * n), "cell": torch.zeros(b, n), "Y": torch.zeros(b, n),
        }  # fmt: skip

    def _step(self, torch: Any, a: Mapping[str, Any]) -> Any:
        gates = a["X"] @ a["W"] + a["H"] @ a["U"] + a["b"]
        i, f, g, o = gates.chunk(4, 1)
        return torch.sigmoid(o) * torch.tanh(torch.sigmoid(f) * a["C"] + torch.sigmoid(i) * torch.tanh(g))

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        cell = torch.nn.LSTMCell(self.inputs, self.width)
        cell.weight_ih.data, cell.weight_hh.data = (arrays[n].t().contiguous() for n in ("W", "U"))
        cell.bias_ih.data, cell.bias_hh.data = arrays["b"], torch.zeros_like(arrays["b"])
        induced, x, state = torch.compile(cell), arrays["X"], (arrays["H"], arrays["C"])
        return {"eager": lambda: cell(x, state)[0], "inductor": lambda: induced(x, state)[0]}

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        return self._step(torch, {name: array.double() for name, array in arrays.items()})

    @property
    def operations(self) -> float:
        return 8.0 * self.batch * self.width * (self.inputs + self.width)


@dataclass(frozen=True, slots=True)
class Bottleneck(Workload):
    """A bottleneck of ResNet, its norms folded into three convolutions."""

    name: str
    batch: int
    side: int
    channels: int
    inner: int
    constant = ("U", "V", "W")

    def source(self) -> tuple[str, Mapping[str, int]]:
        return (KERNELS / "bottleneck.c").read_text(encoding="utf-8"), {
            "B": self.batch, "P": self.side, "C": self.channels, "M": self.inner,
        }  # fmt: skip

    def arrays(self, torch: Any) -> dict[str, Any]:
        c, m, shape = self.channels, self.inner, (self.batch, self.channels, self.side, self.side)
        return {
            "X": torch.randn(shape), "U": torch.randn(m, c) / math.sqrt(c), "u": torch.randn(m),
            "V": torch.randn(m, m, 3, 3) / math.sqrt(9 * m), "v": torch.randn(m),
            "W": torch.randn(c, m) / math.sqrt(m), "w": torch.randn(c), "Y": torch.zeros(shape),
        }  # fmt: skip

    def _block(self, torch: Any, a: Mapping[str, Any]) -> Any:
        conv, relu = torch.nn.functional.conv2d, torch.relu
        x = relu(conv(a["X"], a["U"][:, :, None, None], a["u"]))
        x = relu(conv(x, a["V"], a["v"], padding=1))
        return relu(conv(x, a["W"][:, :, None, None], a["w"]) + a["X"])

    def peers(self, torch: Any, arrays: Mapping[str, Any]) -> Peers:
        return modules(torch, self._block, arrays, ("X",))

    def exact(self, torch: Any, arrays: Mapping[str, Any]) -> Any:
        return self._block(torch, {name: array.double() for name, array in arrays.items()})

    @property
    def operations(self) -> float:
        c, m = self.channels, self.inner
        return 2.0 * self.batch * self.side**2 * (2 * c * m + 9 * m * m)


def modules(
    torch: Any, formula: Callable[[Any, Mapping[str, Any]], Any], arrays: Mapping[str, Any], given: Sequence[str]
) -> Peers:
    """Eager, and Inductor that freezes all parameters but those `given`."""

    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            for name, array in arrays.items():
                if name not in given:
                    self.register_parameter(f"own_{name}", torch.nn.Parameter(array.clone(), requires_grad=False))

        def forward(self, *values: Any) -> Any:
            own = {name: getattr(self, f"own_{name}") for name in arrays if name not in given}
            return formula(torch, {**own, **dict(zip(given, values, strict=True))})

    module = Module().eval()
    induced, values = torch.compile(module), [arrays[name] for name in given]
    return {"eager": lambda: module(*values), "inductor": lambda: induced(*values)}


MLP_1, MLP_2 = (13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1)
WORKLOADS: tuple[Workload, ...] = (
    Attention("mha-1", 8, 128, 96),
    Attention("mha-2", 12, 128, 64),
    Attention("bert", 12, 384, 64),
    Attention("mha-3", 8, 384, 128),
    Attention("mha-4", 16, 512, 64),
    Attention("mha-4-mask", 16, 512, 64, mask=True),
    Attention("mha-2-batch-8", 96, 128, 64),
    Attention("mha-4-batch-8", 128, 512, 64),
    Attention("mha-3-causal", 8, 384, 128, causal=True),
    Attention("mha-4-causal", 16, 512, 64, causal=True),
    Attention("mha-4-lengths", 16, 512, 64, lengths=True),
    Attention("grouped", 32, 512, 128, group=4),
    Attention("mha-4-bf16", 16, 512, 64, bf16=True),
    Attention("mha-4-online", 16, 512, 64, online=True),
    Attention("mha-4-online-mask", 16, 512, 64, online=True, mask=True),
    Attention("mha-4-online-causal", 16, 512, 64, online=True, causal=True),
    Attention("mha-4-online-lengths", 16, 512, 64, online=True, lengths=True),
    *(Attention(f"decode-{keys}", 32, keys, 128, group=4, queries=1) for keys in (33, 512, 2048)),
    *(Perceptron(f"mlp-1-{batch}", batch, MLP_1) for batch in (32, 64, 128, 512)),
    *(Perceptron(f"mlp-2-{batch}", batch, MLP_2) for batch in (32, 128, 512)),
    Perceptron("mlp-1024x3-256", 256, (1024, 1024, 1024, 1024)),
    *(Perceptron(f"mlp-1-bf16-{batch}", batch, MLP_1, bf16=True) for batch in (32, 512)),
    Perceptron("mlp-2-bf16-128", 128, MLP_2, bf16=True),
    Perceptron("mlp-1024x3-bf16-256", 256, (1024, 1024, 1024, 1024), bf16=True),
    *(Quantised(f"mlp-1-int8-{batch}", batch, MLP_1) for batch in (32, 512)),
    Quantised("mlp-2-int8-128", 128, MLP_2),
    Quantised("mlp-1024x3-int8-256", 256, (1024, 1024, 1024, 1024)),
    Encoder("encoder-128", 128, 768, 12, 3072),
    Lstm("lstm-32", 32, 512, 512),
    Bottleneck("bottleneck-56", 1, 56, 256, 64),
    Bottleneck("bottleneck-14", 8, 14, 1024, 256),
)
