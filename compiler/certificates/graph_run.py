# SPDX-License-Identifier: Apache-2.0
"""A graph on symbols, node by node.

Integer operators are those of `integer_operators`; what moves elements is evaluated by the tensor
expression of its record. A node that has neither cannot be certified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from vdla.compiler import te
from vdla.compiler.certificates.elementwise import numbers
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.host_terms import HOST_TERMS
from vdla.compiler.certificates.integer_operators import OPERATORS, IntegerNode
from vdla.compiler.certificates.known_bounds import known_bounds
from vdla.compiler.certificates.symbols import SYMBOL, CertificateError, Symbols
from vdla.compiler.certificates.work_limit import require_sizes, spend
from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.groups import body_of
from vdla.compiler.graph.machine.attention_call import CACHED_ATTENTION
from vdla.compiler.graph.operators.graph_function import graph_function
from vdla.compiler.target import Target
from vdla.support.errors import Error

_PLAIN_CPU = "x86-64"  # decides nothing but the form of expressions of operators that only move


class NotProvableError(CertificateError):
    """A node whose meaning on symbols is unknown; the message names it."""


def run_graph(graph: Graph, inputs: Mapping[str, Symbols], kept: Iterable[str] | None = None) -> dict[str, Symbols]:
    """The values `kept` of a graph, or all, by name.

    Raises:
        NotProvableError: a node that is evaluated neither by an expression of integers nor by its
            record; attention over a cache on the machine.
    """
    for node in graph.nodes:
        if node.op == CACHED_ATTENTION:
            rule = f"{node.label}: attention over a cache on the machine must be compared on devices"
            raise NotProvableError(f"{rule}, since its result depends on the runs before")
    spend(0, sum(prod(_shape(graph, name)) for name in graph.types))
    values: dict[str, Symbols | Array] = {name: _content(array) for name, array in graph.constants.items()}
    values |= inputs
    wanted = set(kept or ())
    last = {name: node for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    for node in graph.nodes:
        try:
            require_sizes(node.attributes)
            results = _results(graph, node, values)
        except Error as error:
            raise NotProvableError(f"{node.label}: {error}") from error
        except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError) as error:
            got = f"{type(error).__name__}: {error}"
            raise NotProvableError(f"{node.label}: operator must be one that a compiler makes, got {got}") from None
        for name, symbols in results.items():
            shape = _shape(graph, name)
            if symbols.size != prod(shape):
                raise NotProvableError(f"{node.label}: {name} must have {prod(shape):,} elements, got {symbols.size:,}")
            values[name] = symbols.reshape(shape)
        if kept is not None:
            for name in (*node.inputs, *node.outputs):
                if last[name] is node and name not in wanted:
                    values.pop(name, None)
    return {name: _as_symbols(value) for name, value in values.items() if kept is None or name in wanted}


def _content(constant: Array) -> Symbols | Array:
    """A constant as it is; small integers remain integers, which need a fraction of the memory."""
    return constant if constant.dtype.kind == "i" and constant.dtype.itemsize <= 4 else numbers(constant)


def _as_symbols(value: Symbols | Array) -> Symbols:
    return value if value.dtype == SYMBOL else numbers(value)


def _results(graph: Graph, node: Node, values: Mapping[str, Symbols | Array]) -> dict[str, Symbols]:
    integers = integer_results(graph, node, values)
    if integers is not None:
        return {node.outputs[0]: integers}
    if _has_floats(graph, node):
        raise CertificateError(f"operator must have an expression of integers, got {node.op}")
    made = graph_function(body_of(graph, node), Target.named(_PLAIN_CPU), "node")
    given = [*(values[name] for name in made.inputs), *map(_content, made.constants.values())]
    params = made.function.params[: len(given)]
    arrays = {
        param: value.reshape(made.function.buffers[param].dims) for param, value in zip(params, given, strict=True)
    }
    return dict(zip(made.outputs, evaluate(made.function, arrays).values(), strict=True))


def integer_results(
    graph: Graph, node: Node, values: Mapping[str, Symbols | Array], *, ones: bool = False
) -> Symbols | None:
    """The result of an integer operator, None of any other. Arrays of integers are numbers; with
    `ones`, by the lemma that a requantisation by 1 changes nothing.
    """
    if node.op in HOST_TERMS:
        return HOST_TERMS[node.op](node, _as_symbols(values[node.inputs[0]]))
    return _of_integers(graph, node, values, ones=ones) if node.op in OPERATORS else None


def _of_integers(graph: Graph, node: Node, values: Mapping[str, Symbols | Array], *, ones: bool) -> Symbols:
    """The result of an integer operator."""
    operands, sums = integer_sums(graph, node, values)
    bounds = known_bounds()
    if bounds is not None and node.op == "vdla.QMul":
        bounds.note(sums)
    return operands.clipped(sums) if ones and operands.by_one else operands.requantised(sums)


def integer_sums(graph: Graph, node: Node, values: Mapping[str, Symbols | Array]) -> tuple[IntegerNode, Symbols]:
    """The sums of an integer operator, and how they are requantised."""
    fixed = node.attributes.get("fixed_point")
    if (fixed is not None and fixed.size) or node.attributes.get("half_away"):
        raise CertificateError("its results must be rounded as the machine does, got TensorFlow Lite's rounding")
    result = graph.tensor(node.outputs[0])
    if result.lanes:
        raise CertificateError(f"results must be plain tensors, got {result} for {node.outputs[0]}")
    tensors = []
    for index, name in enumerate(node.inputs):
        kind = graph.tensor(name)
        if kind.lanes or kind.dtype not in ("int8", "int32"):
            raise CertificateError(f"operands must be plain tensors of int8, got {kind} for {name}")
        tensors.append(te.placeholder(kind.extents, kind.dtype, f"x{index}"))
    operands = IntegerNode(node, tensors)
    sums = OPERATORS[node.op](operands)
    made = te.create_function(tensors, [sums], "node")
    arrays = {tensor.name: values[name] for tensor, name in zip(tensors, node.inputs, strict=True)}
    return operands, next(iter(evaluate(made, arrays).values()))


def _has_floats(graph: Graph, node: Node) -> bool:
    kinds = [graph.types.get(name) for name in (*node.inputs, *node.outputs) if name]
    return any(isinstance(kind, TensorType) and not kind.dtype.startswith(("int", "uint", "bool")) for kind in kinds)


def _shape(graph: Graph, name: str) -> tuple[int, ...]:
    return graph.tensor(name).extents
