"""The kernels of a network on a GPU: each different function is written once for the device."""

from __future__ import annotations

from vdla.compiler.graph import Graph
from vdla.compiler.graph.operators.graph_function import GraphFunction, graph_function
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.target import TARGETS
from vdla.runtime.artifact import GridCode, GridPart
from vdla.runtime.grid import GridDevice
from vdla.support.errors import Error

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
        """All functions, for the device; None if there are none."""
        return GridPart(self.target, tuple(self._codes)) if self._codes else None
