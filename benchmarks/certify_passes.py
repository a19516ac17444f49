# SPDX-License-Identifier: Apache-2.0
"""Passes of the network compiler: which are certified, and planted faults in what they make.

A fault is what a pass that is wrong would give: a node or a constant of the graph after it is
changed. Random runs compare results up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from vdla.benchmarks.fault_counts import FaultCounts, verdict
from vdla.benchmarks.harness import Row, Section
from vdla.compiler.certificates.float_graph_run import GraphRun
from vdla.compiler.certificates.pass_certificate import PassCertifier, PassVerdict, certify_pass, run_before
from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.passes import run_passes
from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS, Network
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, evaluate_node
from vdla.runtime.network.quantise import quantise
from vdla.support.errors import Error
from vdla.support.progress import Progress, numbered

_MACHINE = "pynq_z1"
_NETWORKS_OF_FAULTS = ("digits", "deep_q_network")
_QUANTISED = ("digits", "vit_small")
_FAULTS = 4
"""Faults of each kind, of each pass of a network."""
_RUNS = 4
_CLOSE = 1e-3  # of the largest result


# --- passes of networks ---------------------------------------------------------------------------


def certified_passes(progress: Progress, seed: int) -> Section:
    """The passes that change a network, in floats for this CPU and quantised for a machine."""
    step = numbered(progress, len(NETWORKS))
    rows: list[Row] = []
    for network in NETWORKS.values():
        step(network.name)
        for form, certifier in _observed(network, seed):
            for one in certifier.certificates:
                if one.verdict is not PassVerdict.SAME:
                    shown = {"pass": one.name, "verdict": one.verdict.value, "close": one.close, "reason": one.reason}
                    rows.append({"network": network.name, "form": form, **shown})
    certified = sum(row["verdict"] == PassVerdict.CERTIFIED.value for row in rows)
    without = sorted({row["pass"] for row in rows if row["verdict"] != PassVerdict.CERTIFIED.value})
    figures = {"passes": certified, "passes_without_lemma": len(rows) - certified}
    return Section(figures, rows, {"without_lemma": without})


def _observed(network: Network, seed: int) -> Iterator[tuple[str, PassCertifier]]:
    model = network.build(**network.small, seed=seed)
    certifier = PassCertifier(seed)
    compile_network(model, observe=certifier)
    yield "float", certifier
    try:
        data = [network.inputs(model, seed=seed + number) for number in range(2)]
        quantised = quantise(model, calibration=data, method="minmax").graph
    except Error:  # nothing of it is quantised
        return
    certifier = PassCertifier(seed)
    compile_network(quantised, Config.preset(_MACHINE), observe=certifier)
    yield "int8", certifier


# --- faults ---------------------------------------------------------------------------------------


def planted_in_passes(progress: Progress, seed: int) -> Section:
    """Faults of every kind in the graphs that certified passes of networks make."""
    counts = FaultCounts(tuple(f"pass: {kind}" for kind in PASS_KINDS))
    pairs = [pair for name in _NETWORKS_OF_FAULTS for pair in _changed_graphs(NETWORKS[name], seed)]
    pairs += [pair for name in _QUANTISED for pair in _changed_integers(NETWORKS[name], seed)]
    step = numbered(progress, len(pairs))
    for number, (name, before, after) in enumerate(pairs):
        step(name)
        first = run_before(before, seed)
        if not certify_pass(name, before, after, first=first).holds:
            continue
        for kind in PASS_KINDS:
            rng = default_rng([seed, number, *kind.encode()])
            for fault in faults_of(after, kind, rng, _FAULTS):
                counts.add(f"pass: {kind}", judged_pass(before, after, fault, first, seed))
    figures = {f"pass_{name}": count for name, count in counts.total().items()}
    return Section({**figures, "pass_kinds": counts.kinds}, counts.rows())


def _changed_graphs(network: Network, seed: int) -> list[tuple[str, Graph, Graph]]:
    """The graphs before and after each pass that changes a network of floats."""
    pairs: list[tuple[str, Graph, Graph]] = []

    def observe(name: str, before: Graph, after: Graph) -> None:
        if before is not after:
            pairs.append((name, before, after))

    compile_network(network.build(**network.small, seed=seed), observe=observe)
    return pairs


def _changed_integers(network: Network, seed: int) -> list[tuple[str, Graph, Graph]]:
    """The graphs before and after each pass to integers that changes a quantised network."""
    model = network.build(**network.small, seed=seed)
    data = [network.inputs(model, seed=seed + number) for number in range(2)]
    pairs: list[tuple[str, Graph, Graph]] = []

    def observe(name: str, before: Graph, after: Graph) -> None:
        if before is not after:
            pairs.append((name, before, after))

    run_passes(quantise(model, calibration=data, method="minmax").graph, INTEGER, observe)
    return pairs


def judged_pass(before: Graph, after: Graph, faulty: Graph, first: GraphRun, seed: int) -> str:
    """What the certificate and random runs of a faulty graph say; one that does not run agrees with
    nothing.
    """
    holds = certify_pass("fault", before, faulty, first=first).holds
    return verdict(holds, (_agrees(after, faulty, seed + number) for number in range(_RUNS)))


def _agrees(graph: Graph, other: Graph, seed: int) -> bool:
    rng = default_rng(seed)
    inputs = [rng.standard_normal(graph.tensor(name).extents).astype(np.float32) for name in graph.inputs]
    try:
        one, two = (_run(version, inputs) for version in (graph, other))
    except (Error, ValueError, IndexError):
        return False
    return all(_close(a, b) for a, b in zip(one, two, strict=True))


def _close(a: Array, b: Array) -> bool:
    scale = float(np.abs(a).max(initial=0.0))
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=_CLOSE * scale, equal_nan=True))


def _run(graph: Graph, inputs: list[Array]) -> list[Array]:
    values: dict[str, Any] = {"": None, **graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
    for node in graph.nodes:
        given = [values[name] for name in node.inputs]
        if node.bodies:
            (body,) = node.bodies.values()
            results: Any = _run(body, given)
        else:
            kinds = [[graph.types.get(name) for name in names] for names in (node.outputs, node.inputs)]
            fixed = [name in graph.constants for name in node.inputs]
            results = evaluate_node(node, given, fixed, *kinds, prefer="numpy")
        values.update(zip(node.outputs, results, strict=False))
    return [values[name] for name in graph.outputs]


# --- kinds of faults ------------------------------------------------------------------------------


_Make = Callable[[Graph], Iterator[Graph]]
_UNARY = ("Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish")


def _inside(make: _Make) -> _Make:
    """The same changes also in the bodies of nodes, such as fused ones."""

    def every(graph: Graph) -> Iterator[Graph]:
        yield from make(graph)
        for node in graph.nodes:
            for name, body in node.bodies.items():
                for other in make(body):
                    yield _with_node(graph, node, replace(node, attributes={**node.attributes, name: other}))

    return every


def _with_node(graph: Graph, old: Node, *new: Node) -> Graph:
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += new if node is old else (node,)
    return graph.replace(nodes=tuple(nodes))


def _without(graph: Graph, node: Node, kept: str) -> Iterator[Graph]:
    """The graph whose readers of a node's result read another value of its type."""
    (result,) = node.outputs
    if graph.types.get(kept) != graph.types.get(result) or result in graph.outputs or kept in graph.constants:
        return
    nodes = [
        replace(one, inputs=tuple(kept if name == result else name for name in one.inputs))
        for one in graph.nodes
        if one is not node
    ]
    yield graph.replace(nodes=tuple(nodes))


def _lost_term(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        if node.op in ("Add", "Sub", "Mul", "Div"):
            for kept in node.inputs:
                yield from _without(graph, node, kept)


def _lost_activation(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        if node.op in _UNARY:
            yield from _without(graph, node, node.inputs[0])


def _other_activation(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        if node.op in _UNARY:
            other = "Abs" if node.op == "Relu" else "Relu"
            yield _with_node(graph, node, Node(other, node.inputs[:1], node.outputs, {}, node.name))


def _swapped_operands(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        alike = len({graph.types.get(name) for name in node.inputs}) == 1 < len(set(node.inputs))
        if alike and node.op in ("Sub", "Div", "Concat", "MatMul", "Pow"):
            yield _with_node(graph, node, replace(node, inputs=node.inputs[::-1]))


def _lost_bias(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        if node.op in ("Conv", "Gemm", "ConvTranspose") and len(node.inputs) > 2:
            yield _with_node(graph, node, replace(node, inputs=node.inputs[:2]))


def _moved_pads(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        pads = node.attributes.get("pads")
        if pads and len(pads) == 4 and any(pads):
            top, left, bottom, right = pads
            for other in ((top + bottom, left, 0, right), (top, 0, bottom, left + right)):
                if other != tuple(pads):
                    yield _with_node(graph, node, replace(node, attributes={**node.attributes, "pads": other}))


def _other_constants(graph: Graph, change: Callable[[Array], Array]) -> Iterator[Graph]:
    for name, value in graph.constants.items():
        if value.dtype.kind == "f" and value.size > 1:
            other = np.ascontiguousarray(change(value), value.dtype)
            if not np.array_equal(other, value):
                yield graph.replace(constants={**graph.constants, name: other})


def _rolled(graph: Graph) -> Iterator[Graph]:
    return _other_constants(graph, lambda value: np.roll(value, 1, axis=0))


def _scaled(graph: Graph) -> Iterator[Graph]:
    return _other_constants(graph, lambda value: value * 1.0625)


def _one_element(graph: Graph) -> Iterator[Graph]:
    def change(value: Array) -> Array:
        flat = value.copy().reshape(-1)
        flat[-1] = -flat[-1] if flat[-1] else 1
        return flat.reshape(value.shape)

    return _other_constants(graph, change)


def _other_value(graph: Graph) -> Iterator[Graph]:
    """A node that reads an earlier value of the same type."""
    earlier: list[str] = list(graph.inputs)
    for node in graph.nodes:
        for place, name in enumerate(node.inputs):
            alike = [one for one in earlier if one != name and graph.types.get(one) == graph.types.get(name)]
            if name and isinstance(graph.types.get(name), TensorType) and alike and name not in graph.constants:
                inputs = (*node.inputs[:place], alike[-1], *node.inputs[place + 1 :])
                yield _with_node(graph, node, replace(node, inputs=inputs))
        earlier += node.outputs


# --- of integer operators


def _with_attributes(graph: Graph, name: str, change: Callable[[Any], Any]) -> Iterator[Graph]:
    """Each operator of integers with another attribute."""
    for node in graph.nodes:
        if node.op.startswith("vdla.Q") and name in node.attributes:
            yield _with_node(
                graph, node, replace(node, attributes={**node.attributes, name: change(node.attributes[name])})
            )


def _other_multiplier(graph: Graph) -> Iterator[Graph]:
    yield from _with_attributes(graph, "multiplier", lambda value: value + np.maximum(1, value >> 12))
    yield from _with_attributes(graph, "shift", lambda value: value + (np.arange(len(value)) == 0))


def _other_zero_point(graph: Graph) -> Iterator[Graph]:
    for name in ("x_zero_point", "a_zero_point", "b_zero_point", "y_zero_point"):
        yield from _with_attributes(graph, name, lambda value: value + 1 if value < 127 else value - 1)


def _other_bounds(graph: Graph) -> Iterator[Graph]:
    yield from _with_attributes(graph, "high", lambda value: value - 1)
    yield from _with_attributes(graph, "low", lambda value: value + 1)


def _other_factors(graph: Graph) -> Iterator[Graph]:
    for node in graph.nodes:
        factors = node.attributes.get("factors", (1, 1))
        if factors[0] != factors[1]:
            for other in (factors[::-1], (factors[0], factors[1] + 1 + abs(factors[1]) // 256)):
                yield _with_node(graph, node, replace(node, attributes={**node.attributes, "factors": other}))


def _other_entry(graph: Graph) -> Iterator[Graph]:
    for place in (0, 64, 128, 192, 255):
        yield from _with_attributes(graph, "table", partial(_nearer, place=place))


def _nearer(table: Array, place: int) -> Array:
    """A table with an entry that is one nearer to 0, or 1 for 0."""
    changed = table.copy()
    changed[place] -= np.sign(table[place]) or -1
    return changed


def _integers_of(graph: Graph, dtype: str, change: Callable[[Array], Array]) -> Iterator[Graph]:
    read = {name for node in graph.nodes if node.op.startswith("vdla.Q") for name in node.inputs}
    for name, value in graph.constants.items():
        if name in read and value.dtype == dtype and value.size > 1:
            other = change(value)
            if not np.array_equal(other, value):
                yield graph.replace(constants={**graph.constants, name: other})


def _other_bias(graph: Graph) -> Iterator[Graph]:
    return _integers_of(graph, "int32", lambda value: value + (np.arange(value.size) == 0).astype(np.int32))


def _other_weights(graph: Graph) -> Iterator[Graph]:
    yield from _integers_of(graph, "int8", lambda value: np.roll(value, 1, axis=0))
    yield from _integers_of(graph, "int8", lambda value: np.roll(value, 1, axis=-1))


INTEGER_KINDS: Mapping[str, _Make] = {
    "another multiplier of integers": _inside(_other_multiplier),
    "another zero point": _inside(_other_zero_point),
    "other bounds of integers": _inside(_other_bounds),
    "other factors of a sum": _inside(_other_factors),
    "another entry of a table": _inside(_other_entry),
    "another bias of integers": _inside(_other_bias),
    "integer weights of other channels": _inside(_other_weights),
}
PASS_KINDS: Mapping[str, _Make] = {
    "term that is lost": _inside(_lost_term),
    "activation that is lost": _inside(_lost_activation),
    "another activation": _inside(_other_activation),
    "operands that change places": _inside(_swapped_operands),
    "bias that is lost": _inside(_lost_bias),
    "pads on another side": _inside(_moved_pads),
    "constants of other channels": _inside(_rolled),
    "constants that are scaled": _inside(_scaled),
    "one element of constants": _inside(_one_element),
    "another value that is read": _inside(_other_value),
    **INTEGER_KINDS,
}


def faults_of(after: Graph, kind: str, rng: Generator, count: int) -> list[Graph]:
    """At most `count` faults of a kind in a graph."""
    made = list(PASS_KINDS[kind](after))
    return [made[int(place)] for place in rng.permutation(len(made))[:count]]
