"""cuBLAS and cuDNN by way of PyTorch, or cuBLAS by way of CuPy, whichever is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Timed = Callable[[int], float]
"""Runs a kernel so many times; the seconds that the device took."""
_MILLISECOND = 1e-3


def vendor_kernels(arrays: Sequence[Array], operator: str) -> tuple[str, Timed] | None:
    """The library and its "product" or "conv2d" of arrays; None if there is none.

    A convolution has strides of 1 and a padding of 1.
    """
    for name, make in (("torch", _torch), ("cupy", _cupy)):
        try:
            library = import_module(name)
        except ImportError:
            continue
        run = make(library, arrays, operator)
        if run is not None:
            return f"{name} {library.__version__}", run
    return None


def _torch(torch: Any, arrays: Sequence[Array], operator: str) -> Timed | None:  # noqa: ANN401  a module
    """By PyTorch, if it has CUDA."""
    if not torch.cuda.is_available():
        return None
    x, y = (torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in arrays)

    def run(times: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            torch.matmul(x, y) if operator == "product" else torch.nn.functional.conv2d(x, y, padding=1)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * _MILLISECOND

    return run


def _cupy(cupy: Any, arrays: Sequence[Array], operator: str) -> Timed | None:  # noqa: ANN401  a module
    """By CuPy, which has products only."""
    if operator != "product":
        return None
    x, y = (cupy.asarray(array) for array in arrays)

    def run(times: int) -> float:
        start, end = (cupy.cuda.Event() for _ in range(2))
        start.record()
        for _ in range(times):
            cupy.matmul(x, y)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) * _MILLISECOND

    return run
