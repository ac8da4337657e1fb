"""Weights of learned rankers as files: safetensors, which holds numbers and text only, so that loading runs no code.

Metadata: `format` (`polydl-ranker`), `header` (JSON: what `Header` says). Tensors: `mean`, `scale` (features,) and
`<member>.<layer>.weight`, `<member>.<layer>.bias` of each member of the ensemble.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from polydl.base.errors import ModelError
from polydl.base.records import dataclass
from polydl.rank.network import ACTIVATIONS, Layer
from polydl.rank.ranker import FloatArray

FORMAT = "polydl-ranker"
WEIGHTS_VERSION = 1
"""Of the file's layout."""
_MOST_BYTES = 64 << 20
_MOST_LAYERS = 32
_AGAIN = "train it again (polydl train), or use the weights that came with this version of polydl"


@dataclass(frozen=True, slots=True)
class Header:
    """What a file of weights says about itself."""

    kind: str
    """`dnn` or `dnn-paper`."""
    features_version: int
    features: tuple[str, ...]
    """Names of the inputs, in order."""
    activations: tuple[str, ...]
    """One a layer."""
    members: int
    """Networks in the ensemble."""
    data: str
    """SHA-256 of the training data."""
    polydl: str
    """Version that trained it."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """`clip`, `temperature`, `theta`, …: constants of the model."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Machine, seeds, metrics: for people."""
    weights_version: int = WEIGHTS_VERSION


@dataclass(frozen=True, slots=True)
class Weights:
    """A learned ranker."""

    header: Header
    mean: FloatArray
    """(features,)."""
    scale: FloatArray
    """(features,)."""
    members: tuple[tuple[Layer, ...], ...]


def save_weights(path: Path, weights: Weights) -> None:
    """Write a file of weights, whole or not at all."""
    from safetensors.numpy import save

    tensors = {"mean": weights.mean, "scale": weights.scale}
    for m, member in enumerate(weights.members):
        for n, layer in enumerate(member):
            tensors[f"{m}.{n}.weight"], tensors[f"{m}.{n}.bias"] = layer.weight, layer.bias
    ready = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in tensors.items()}
    data = save(ready, {"format": FORMAT, "header": json.dumps(asdict(weights.header), sort_keys=True)})
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def load_weights(path: Path, kind: str, features: tuple[str, ...], features_version: int) -> Weights:
    """Read a file of weights for a kind of ranker and its features.

    Raises ModelError for a file that is not there, is damaged or truncated, is no ranker, of another kind, or was
    made for other features.
    """
    metadata, tensors = _read(path)
    if metadata.get("format") != FORMAT:
        raise ModelError(f"{path} holds no ranker of polydl", hint=_AGAIN)
    header = _header(path, metadata.get("header", ""))
    if header.weights_version != WEIGHTS_VERSION:
        raise ModelError(
            f"{path} has the layout {header.weights_version}, this polydl knows {WEIGHTS_VERSION}", hint=_AGAIN
        )
    if header.kind != kind:
        raise ModelError(f"{path} holds a ranker of the kind '{header.kind}', not '{kind}'", hint=_AGAIN)
    if header.features_version != features_version or header.features != features:
        raise ModelError(
            f"{path} was made for version {header.features_version} of the features ({len(header.features)} of them), "
            f"this polydl has version {features_version} ({len(features)})",
            hint=_AGAIN,
        )
    width = len(features)
    mean, scale = (_tensor(path, tensors, name, (width,)) for name in ("mean", "scale"))
    inputs = 2 * width if kind == "dnn-paper" else width
    members = tuple(_member(path, tensors, m, header, inputs) for m in range(header.members))
    expected = 2 + sum(2 * len(member) for member in members)
    if len(tensors) != expected:
        raise ModelError(f"{path} has {len(tensors)} tensors where {expected} belong", hint=_AGAIN)
    return Weights(header, mean, scale, members)


def kind_of(path: Path) -> str:
    """Which kind of ranker a file of weights holds. Raises ModelError as `load_weights` does."""
    metadata, _ = _read(path)
    if metadata.get("format") != FORMAT:
        raise ModelError(f"{path} holds no ranker of polydl", hint=_AGAIN)
    return _header(path, metadata.get("header", "")).kind


def _read(path: Path) -> tuple[Mapping[str, str], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ModelError(f"{path} has {size >> 20} MiB, more than any ranker", hint=_AGAIN)
        with safe_open(path, framework="np") as file:
            metadata = dict(file.metadata() or {})
            return metadata, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise ModelError(f"there is no file {path}", hint=_AGAIN) from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path} is damaged or no safetensors file: {error}", hint=_AGAIN) from error


def _header(path: Path, text: str) -> Header:
    try:
        values = json.loads(text)
        if not isinstance(values, dict) or set(values) != {f.name for f in fields(Header)}:
            raise ValueError("unknown or missing entries")
        header = Header(
            kind=str(values["kind"]),
            features_version=int(values["features_version"]),
            features=tuple(str(name) for name in values["features"]),
            activations=tuple(str(name) for name in values["activations"]),
            members=int(values["members"]),
            data=str(values["data"]),
            polydl=str(values["polydl"]),
            numbers={str(k): float(v) for k, v in values["numbers"].items()},
            notes={str(k): str(v) for k, v in values["notes"].items()},
            weights_version=int(values["weights_version"]),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"the header of {path} is damaged: {error}", hint=_AGAIN) from error
    if not 1 <= header.members <= 100 or not 1 <= len(header.activations) <= _MOST_LAYERS:
        raise ModelError(f"the header of {path} is damaged: {header.members} members", hint=_AGAIN)
    if unknown := set(header.activations) - set(ACTIVATIONS):
        raise ModelError(f"{path} needs the activation {', '.join(sorted(unknown))}, unknown here", hint=_AGAIN)
    return header


def _member(path: Path, tensors: Mapping[str, Any], number: int, header: Header, inputs: int) -> tuple[Layer, ...]:
    layers = []
    for n, activation in enumerate(header.activations):
        bias = _tensor(path, tensors, f"{number}.{n}.bias", None)
        weight = _tensor(path, tensors, f"{number}.{n}.weight", (bias.shape[0], inputs))
        layers.append(Layer(weight, bias, activation))
        inputs = bias.shape[0]
    return tuple(layers)


def _tensor(path: Path, tensors: Mapping[str, Any], name: str, shape: tuple[int, ...] | None) -> FloatArray:
    """A tensor as float64; without `shape` it must be a vector."""
    value = tensors.get(name)
    if value is None:
        raise ModelError(f"{path} lacks '{name}'", hint=_AGAIN)
    if value.dtype != np.float32 or (value.ndim != 1 if shape is None else value.shape != shape):
        raise ModelError(f"'{name}' in {path} is {value.dtype} of shape {value.shape}", hint=_AGAIN)
    if not np.isfinite(value).all():
        raise ModelError(f"'{name}' in {path} has values that are no numbers", hint=_AGAIN)
    return np.asarray(value, dtype=np.float64)
