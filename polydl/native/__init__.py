"""C kernels as Python functions: `polydl.compile`."""

from polydl.native.compile import compile_kernel
from polydl.native.kernel import Kernel

__all__ = ["Kernel", "compile_kernel"]
