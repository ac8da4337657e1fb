"""Models as C: built and run without Python, equal to eager PyTorch; what cannot be exported is told in one message."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polydl.base.errors import InputError, PolyDLError
from polydl.torch_backend import export
from polydl.torch_backend.graph_report import GraphReport
from polydl.torch_backend.model_export import Exported

QUICK: dict[str, object] = {"groups": 0}
"""No search: what is tested is what is around the groups."""


class Network(nn.Module):
    """Convolutions, a norm of fixed statistics, pooling, several kinds of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8),
        )  # fmt: skip
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> dict[str, Any]:
        features = self.body(x)
        scores = self.head(features.mean((2, 3)))
        return {"scores": scores.log_softmax(-1), "views": (features.permute(0, 2, 3, 1), features[:, 0]), "x": x}


class Tokens(nn.Module):
    """Embeddings of tokens and of places that the model computes, attention, two inputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 16), nn.Embedding(9, 16)
        self.qkv, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)

    def forward(self, tokens: Tensor, scale: Tensor, *, times: int = 2) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        q, k, v = (one.reshape(*x.shape[:2], 2, 8).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found: Tensor = x + mixed.transpose(1, 2).reshape(x.shape) * scale * times
        return found


class Counting(nn.Module):
    """Tensors of its own that a call changes."""

    calls: Tensor
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.randn(5))
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return (x - self.mean) * self.weight, self.mean.clone()


class Types(nn.Module):
    """Elements of several types."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
        return a * 2 + 1, b.double().exp(), (c.float() * 3).to(torch.bfloat16), d & (a > 0), c.half() + 1


MODELS: dict[str, tuple[type[nn.Module], tuple[Any, ...], dict[str, Any]]] = {
    "network": (Network, (torch.randn(2, 3, 10, 10),), {}),
    "tokens": (Tokens, (torch.randint(0, 11, (2, 7)), torch.tensor(0.5)), {"times": 3}),
    "counting": (Counting, (torch.randn(4, 5),), {}),
    "types": (Types, (torch.arange(-3, 3), torch.randn(6), torch.randn(2, 6).bfloat16(), torch.randn(6) > 0), {}),
    "strided": (nn.Softmax, (torch.randn(6, 4).t(),), {}),
}


def made(name: str, folder: Path, **options: Any) -> tuple[nn.Module, Exported]:
    kind, args, kwargs = MODELS[name]
    torch.manual_seed(1)
    model = (kind(-1) if kind is nn.Softmax else kind()).eval()
    return model, export(model, args, folder, kwargs=kwargs, name=name, options={**QUICK, **options})


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(one) for one in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", list(MODELS))
def test_runs_without_python(name: str, tmp_path: Path) -> None:
    """The test of the model's own: alone, and on two threads at once; built without a warning."""
    _, exported = made(name, tmp_path)
    own = f"{name}.o", f"{name}_test.o"
    run("make", "-C", tmp_path, *own, "CFLAGS=-O1 -fopenmp -Wall -Wextra -Werror")
    told = run("make", "-C", tmp_path, "test", "CFLAGS=-O1 -fopenmp -Wall")
    assert "warning" not in told
    assert "passed" in told
    assert told.count("largest difference") + told.count("equal") >= 3 * len(exported.outputs)
    written = {one.name for one in tmp_path.iterdir() if one.suffix in (".c", ".h", ".bin", "")}
    assert written - {f"{name}_test"} == set(exported.files)


def library(folder: Path, name: str) -> ctypes.CDLL:
    files = sorted(str(one) for one in folder.glob("*.c") if not one.name.endswith("_test.c"))
    run("gcc", "-O1", "-fopenmp", "-shared", "-fPIC", "-I.", *files, "-lm", "-o", "x.so", cwd=folder)
    found = ctypes.CDLL(str(folder / "x.so"))
    getattr(found, f"{name}_error").restype = ctypes.c_char_p
    return found


def aligned(size: int, dtype: torch.dtype = torch.uint8) -> Tensor:
    made = torch.empty(size, dtype=dtype)
    assert made.data_ptr() % 64 == 0
    return made


def pointers(*tensors: Tensor) -> Any:
    return (ctypes.c_void_p * len(tensors))(*(one.data_ptr() for one in tensors))


def told(found: ctypes.CDLL, name: str, code: int) -> str:
    return str(getattr(found, f"{name}_error")(code).decode())


def test_calls_from_c(tmp_path: Path) -> None:
    """Other inputs than those of the export; indices and files are checked before they are used."""
    model, exported = made("tokens", tmp_path)
    found = library(tmp_path, "tokens")
    weights, arena = aligned(exported.weights_bytes), aligned(exported.arena_bytes)
    file = tmp_path / "tokens_weights.bin"

    def load(path: Path) -> str:
        return told(found, "tokens", found.tokens_load(str(path).encode(), ctypes.c_void_p(weights.data_ptr())))

    def call(tokens: Tensor, scale: Tensor, out: Tensor, threads: int) -> str:
        return told(found, "tokens", found.tokens_run(
            ctypes.c_void_p(weights.data_ptr()), pointers(tokens, scale), pointers(out),
            ctypes.c_void_p(arena.data_ptr()), threads,
        ))  # fmt: skip

    assert load(file) == "no error"
    out = torch.empty(2, 7, 16)
    for threads in (0, 1, 2):
        tokens, scale = torch.randint(0, 11, (2, 7)), torch.randn(())
        assert call(tokens, scale, out, threads) == "no error"
        with torch.no_grad():
            torch.testing.assert_close(out, model(tokens, scale, times=3))
    for wrong in (-1, 11):
        tokens[1, 3] = wrong
        assert call(tokens, scale, out, 1) == "an index lies outside of its tensor"
    assert "not aligned" in call(tokens, scale, torch.empty(2 * 7 * 16 + 1)[1:], 1)
    data = bytearray(file.read_bytes())
    assert load(tmp_path / "none.bin") == "the file of weights cannot be opened"
    flipped = data.copy()
    flipped[-60] ^= 1
    for change, why in (
        (data[:-64], "cut short"), (b"something else", "no weights of this model"), (data[:40], "no weights"),
        (flipped, "damaged"), (data.replace(b"words.weight", b"wards.weight"), "no weights of this model"),
    ):  # fmt: skip
        (tmp_path / "wrong.bin").write_bytes(change)
        assert why in load(tmp_path / "wrong.bin")


def test_state_stays_with_the_weights(tmp_path: Path) -> None:
    model, exported = made("counting", tmp_path)
    found = library(tmp_path, "counting")
    weights, arena = aligned(exported.weights_bytes), aligned(exported.arena_bytes)
    at = ctypes.c_void_p(weights.data_ptr())
    assert found.counting_load(str(tmp_path / "counting_weights.bin").encode(), at) == 0
    outputs = [torch.empty(4, 5), torch.empty(5)]
    for _ in range(3):
        x = torch.randn(4, 5)
        assert found.counting_run(at, pointers(x), pointers(*outputs), ctypes.c_void_p(arena.data_ptr()), 1) == 0
        with torch.no_grad():
            for mine, theirs in zip(outputs, model(x), strict=True):
                torch.testing.assert_close(mine, theirs)
    assert "void *weights" in (tmp_path / "counting.h").read_text()
    assert "const void *weights" not in (tmp_path / "counting.h").read_text()


def test_groups_are_those_of_torch_compile(tmp_path: Path) -> None:
    """The same operators give the same functions of C through both doors."""
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1)).eval()
    x = torch.randn(5, 6)
    reports: list[GraphReport] = []
    with torch.no_grad():
        torch.compile(model, backend="polydl", options={"groups": 0, "report": reports.append})(x)
    exported = export(model, x, tmp_path, options=QUICK)
    assert exported.groups == tuple(group.name for group in reports[0].groups)


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Sorting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        inverse: Tensor = torch.linalg.inv(x)
        return torch.sort(x)[0] + inverse.relu()


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        return x + 1, 3


@pytest.mark.parametrize(
    ("model", "args", "words"),
    [
        (Broken(), (torch.randn(3),), ("torch.export cannot take", "test_export.py", "branches")),
        (Sorting(), (torch.randn(3, 3),), ("3 of its operators", "aten.sort", "linalg_inv", "test_export.py")),
        (nn.Linear(3, 2), (torch.randn(2, 4),), ("torch.export cannot take",)),
        (nn.Linear(3, 2), (), ("torch.export cannot take", "input")),
        (nn.Dropout(0.5), (torch.randn(4),), ("operators have no loops", "random")),
        (Pair(), (torch.randn(3),), ("output 1 of the model is no tensor",)),
        (nn.Identity(), (torch.randn(0),), ("no elements",)),
    ],
)
def test_what_cannot_be_exported_is_told_at_once(
    model: nn.Module, args: tuple[Any, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(PolyDLError) as told:
        export(model, args, tmp_path / "out", options=QUICK)
    for word in words:
        assert word in f"{told.value} {told.value.hint}", told.value
    assert not (tmp_path / "out").exists()


def test_wrong_calls_of_export(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no name"):
        export(nn.ReLU(), torch.randn(3), tmp_path, name="a-b")
    with pytest.raises(InputError, match="takes a"):
        export(lambda x: x, torch.randn(3), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no option"):
        export(nn.ReLU(), torch.randn(3), tmp_path, options={"speed": 1})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder"):
        export(nn.ReLU(), torch.randn(3), tmp_path / "file", options=QUICK)
