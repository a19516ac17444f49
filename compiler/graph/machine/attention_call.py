# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache on the machine: `vdla.QCachedAttention` as the program of a token, or of a
chunk of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod

import numpy as np

from vdla.compiler.extensions import LayerError
from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, decline
from vdla.compiler.graph.machine.packing import Channels
from vdla.compiler.layer_programs import LEAST_SCORE, CachedAttention
from vdla.compiler.operators.vdla import WrittenOperator
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.hardware.config import Config
from vdla.hardware.program import Program

CACHED_ATTENTION = "vdla.QCachedAttention"
_MASKED = 128 * 127
"""What an element of the mask of a key takes from a score, before it is rescaled."""
_TOKEN = ("query_entries", "key_entries", "value_entries")
_LABEL = "attention over a cache"


def attention_of(config: Config, graph: Graph, node: Node, places: int) -> CachedAttention:
    """The attention of a node over so many places; the places of the cache's parts, in the order of
    its `part_strides`, are inputs of a node behind query, key and value.

    Raises:
        NotAcceleratedError: the machine has no such attention; the message says what must be.
    """
    options, extents = node.attributes, graph.tensor(node.inputs[0]).extents
    size = extents[-1] if len(extents) == 4 else extents[-1] // options["heads"]
    try:
        made = CachedAttention(
            config=config,
            heads=options["heads"],
            kv_heads=options["kv_heads"],
            size=size,
            places=places,
            score=_factor(node, "score_"),
            factor=options["factor"],
            result=_factor(node),
            zero_point=options["y_zero_point"],
            low=options["low"],
            high=options["high"],
            tokens=extents[-2],
            masks=ceil(LEAST_SCORE / (-_MASKED * config.block_out * _factor(node, "score_"))),
        )
    except LayerError as error:
        decline(str(error).removeprefix("cached_attention: "))
    return made


def _factor(node: Node, prefix: str = "") -> float:
    """The real factor of a requantisation with one for all."""
    multiplier, shift = (node.attributes[f"{prefix}{name}"] for name in ("multiplier", "shift"))
    return float(np.ldexp(multiplier.astype(np.float64), -shift).item())


def cached_attention(at: MachineNode, cycles_of: Callable[[Program], int]) -> OperatorCall:
    """The call of a `vdla.QCachedAttention`; `cycles_of` times its program."""
    node = at.node
    of = attention_of(at.config, at.graph, node, node.attributes["places"])
    inputs = {
        tensor: (name, at.activation(name, Channels.ROWS)) for tensor, name in zip(_TOKEN, node.inputs, strict=False)
    }
    output, given = at.result(Channels.ROWS), of.program().program
    shapes = {name: layout.packed_shape for name, (_, layout) in inputs.items()}
    tensors = [
        replace(tensor, name=str(OUTPUT), shape=output.packed_shape)
        if tensor.role == "output"
        else replace(tensor, shape=shapes.get(tensor.name, tensor.shape))
        for tensor in given.tensors
    ]
    lines = {"source_lines": (_LABEL,), "source_of": np.zeros(len(given), np.int32)}
    program = replace(given, tensors=tuple(tensors), **lines)  # type: ignore[arg-type]
    macs = 2 * prod((of.tokens, of.heads, of.size, of.places))
    operator = WrittenOperator(_LABEL, program, macs, cycles_of(program), ("softmax", "transpose"))
    cache = node.attributes["cache"]
    kept = {tensor.name: f"{cache}.{tensor.name}" for tensor in tensors if tensor.role in ("resident", "part")}
    return OperatorCall(
        operator=operator,
        inputs=inputs,
        constants={},
        output=output,
        kept=kept,
        offsets=dict(zip(of.part_strides, node.inputs[3:], strict=True)),
    )
