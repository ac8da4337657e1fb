"""Loads `Region` and `Watch`: the C extension templates/torch_call.c, compiled once, or their twins in Python."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import tempfile
import warnings
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from polydl.base import resources
from polydl.base.cache import Cache, compiler_parts, key_of
from polydl.base.errors import ToolchainError
from polydl.measure.compiler import find_compiler, run_compiler
from polydl.options import Options
from polydl.torch_backend import calls_in_python

_CACHE = Cache("torch_call", ".so", 20)
_NAME = "polydl_torch_call"


@cache
def calls(cc: str) -> Any:
    """A module with `Region` and `Watch`: compiled by `cc`, or, with a warning, the one in Python."""
    try:
        module = _load(_compiled(cc))
    except (ToolchainError, ImportError) as error:
        warnings.warn(f"calls of compiled graphs go through Python, which takes longer: {error}", stacklevel=2)
        return calls_in_python
    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _empty)  # 0.7 µs; torch.empty_strided takes 1.6
    module.setup(torch.Tensor, torch.Tensor.__dlpack_c_exchange_api__, empty, torch.get_num_threads)
    os.register_at_fork(after_in_child=module.in_child)
    return module


def _empty(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(sizes, strides, dtype=dtype)


def _compiled(cc: str) -> Path:
    """The file of the extension. Raises ToolchainError."""
    source = resources.templates() / "torch_call.c"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise ToolchainError(f"there is no {headers / 'Python.h'}")
    text = source.read_bytes()
    key = key_of([text, sys.version, str(headers), *compiler_parts(cc, ())])
    if _CACHE.read(key) is not None:
        return _CACHE.path(key)
    folder = Path(tempfile.mkdtemp(prefix="polydl-torch-call-"))
    made = folder / f"{_NAME}.so"
    flags = ["-O2", "-fPIC", "-shared", "-fopenmp", f"-I{headers}"]
    done = run_compiler([find_compiler(Options(cc=cc).toolchain()), *flags, str(source), "-o", str(made)])
    if not done.ok:
        raise ToolchainError(f"the extension for calls cannot be compiled: {done.message}")
    return _CACHE.path(key) if _CACHE.write(key, made.read_bytes()) else made


def _load(path: Path) -> ModuleType:
    loader = ExtensionFileLoader(_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no extension")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
