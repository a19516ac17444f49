# SPDX-License-Identifier: Apache-2.0
"""The kernels of a network, each different function once: compiled for a CPU by LLVM in a thread
while Python goes on, written for a GPU.

LLVM holds no lock of Python, but one of its own: a second thread would wait for the first.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from vdla.compiler.graph import Array, Graph
from vdla.compiler.graph.operators.graph_function import GraphFunction, graph_function
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.target import TARGETS, Target
from vdla.runtime.executor.artifact import KernelCode
from vdla.runtime.executor.grid_code import GridCode, GridPart
from vdla.runtime.grid.protocol import GridDevice
from vdla.runtime.network.kernel_module import KernelPoint, kernel_module
from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm import NativeObject

_FORMS = TARGETS["x86-64"]  # whose operators have the plainest expressions


class GridKernelTable:
    """The functions of a GPU by their text, in the order of first use.

    `target` names the device as `vdla.compile` does.
    """

    def __init__(self, target: str, device: GridDevice) -> None:
        self.target, self.device = target, device
        self._index: dict[str, int] = {}
        self._codes: list[GridCode] = []
        self._failures: dict[str, Error] = {}

    def add(self, graph: Graph) -> tuple[int, GraphFunction]:
        """The index of the kernel of a graph, and its function.

        Raises:
            Error: a node without a tensor expression, or a function that the device cannot run.
        """
        made = graph_function(graph, _FORMS)
        key = str(made.function)
        if key in self._failures:
            raise self._failures[key]
        if key not in self._index:
            try:
                code = GridCode.of(self.device.compile(grid_schedule(made.function, self.device.limits).fn))
            except Error as error:
                self._failures[key] = error
                raise
            self._index[key] = len(self._codes)
            self._codes.append(code)
        return self._index[key], made

    def part(self) -> GridPart | None:
        """All functions, for the device, or None."""
        return GridPart(self.target, tuple(self._codes)) if self._codes else None


KernelPoints = Callable[[str], KernelPoint | None]
"""The best known schedule of a kernel by the key of its tuning task; None for the default one."""
_BestFunction = tuple[GraphFunction, KernelPoint | None]


class KernelTable:
    """Compiled kernels by the text of their function, in the order of first use.

    Leaving the context drops what LLVM has not begun.
    """

    def __init__(self, target: Target, points: KernelPoints | None = None) -> None:
        self.target, self._points = target, points
        self._thread = ThreadPoolExecutor(1, "kernels")
        self._index: dict[str, int] = {}
        self._objects: list[Future[NativeObject]] = []
        self._functions: dict[int, tuple[Graph, _BestFunction | DeclinedError]] = {}  # by the graph's id

    def __enter__(self) -> KernelTable:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def has(self, graph: Graph) -> bool:
        """Whether every node of a graph has a tensor expression."""
        return not isinstance(self._function(graph), DeclinedError)

    def add(self, graph: Graph) -> tuple[int, GraphFunction]:
        """The index of the kernel of a graph, and its function.

        Raises:
            DeclinedError: a node without a tensor expression.
        """
        result = self._function(graph)
        if isinstance(result, DeclinedError):
            raise result
        made, point = result
        key = f"{made.function} {point}"
        if key not in self._index:
            self._index[key] = len(self._objects)
            self._objects.append(self._thread.submit(kernel_module(made.function, self.target, point).compile))
        return self._index[key], made

    def _function(self, graph: Graph) -> _BestFunction | DeclinedError:
        if id(graph) not in self._functions:
            try:
                self._functions[id(graph)] = graph, self._best(graph)
            except DeclinedError as error:
                self._functions[id(graph)] = graph, error
        return self._functions[id(graph)][1]

    def _best(self, graph: Graph) -> _BestFunction:
        """The function of a graph and its best known schedule, None for the default one."""
        made = graph_function(graph, self.target)
        if self._points is None:
            return made, None
        from vdla.compiler.tune.cpu_forms import chosen_form
        from vdla.compiler.tune.cpu_task import kernel_key

        point = self._points(kernel_key(made.function, self.target))
        if point is None:
            return made, None
        return graph_function(chosen_form(graph, point), self.target), point

    def compile(self) -> tuple[KernelCode, ...]:
        """The objects of all kernels, in order."""
        made = [waiting.result() for waiting in self._objects]
        return tuple(KernelCode(item.signature, item.object) for item in made)


def constant_name(value: Array, known: dict[bytes, str], base: str) -> str:
    """The name of a constant by its content; `base`, if it is new."""
    import hashlib

    digest = hashlib.sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes()).digest()
    return known.setdefault(digest, base)
