"""The kernels of a network: each different function is compiled once."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.graph import Array, Graph
from vdla.compiler.graph.rules.graph_function import GraphFunction, graph_function
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import Target
from vdla.runtime.artifact import KernelCode
from vdla.support.parallel import parallel_map


class KernelTable:
    """Compiled kernels by the text of their function, in the order of first use."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._index: dict[str, int] = {}
        self._functions: list[GraphFunction] = []

    def add(self, graph: Graph) -> tuple[int, GraphFunction]:
        """The index of the kernel of a graph, and its function.

        Raises:
            DeclinedError: a node without a tensor expression.
        """
        made = graph_function(graph, self.target)
        key = str(made.function)
        if key not in self._index:
            self._index[key] = len(self._functions)
            self._functions.append(made)
        return self._index[key], made

    def compile(self) -> tuple[KernelCode, ...]:
        """The objects of all kernels, in order; compiled on all processors."""
        work = [(made.function, self.target) for made in self._functions]
        return tuple(parallel_map(_compiled, work))


def _compiled(work: tuple[ir.Function, Target]) -> KernelCode:
    """The object of an unscheduled function."""
    from vdla.compiler.codegen.llvm import compile_native

    function, target = work
    made = compile_native(default_schedule(function, target).fn, target)
    return KernelCode(made.signature, made.object)


def constant_name(value: Array, known: dict[bytes, str], base: str) -> str:
    """The name of a constant by its content; `base`, if it is new."""
    import hashlib

    digest = hashlib.sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes()).digest()
    return known.setdefault(digest, base)
