# SPDX-License-Identifier: Apache-2.0
"""The medium LSTM language model of Zaremba et al. (2014): two layers of 650, 10,000 words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vdla.networks.network_builder import Dimension, NetworkBuilder

if TYPE_CHECKING:
    from onnx import ModelProto

GATES = 4
# Above He's, so that states of small cells and logits spread as in a trained model.
_CELL_GAIN, _PROJECTION_GAIN = 4.0, 16.0


def lstm_language_model(
    batch: Dimension = 1,
    steps: int = 35,
    words: int = 10_000,
    hidden: int = 650,
    layers: int = 2,
    seed: int = 0,
    *,
    carried: bool = False,
) -> ModelProto:
    """`tokens` [batch, steps], int64 below `words`, to `logits` [batch, steps, words].

    The state begins at zero or, if it is `carried`, at inputs [1, batch, hidden]: `hidden0`,
    `cell0`, `hidden1`, ...; then it is an output too: `hidden0.next` and so on.
    """
    net = NetworkBuilder("lstm_language_model", seed)
    net.input("tokens", (batch, steps), "int64")
    table = net.constant("embedding.weight", net.normal((words, hidden), 1.0))
    net.node("Gather", [table, "tokens"], "embedding", axis=0)
    x = net.node("Transpose", ["embedding"], "embedding.by_step", perm=[1, 0, 2])
    axes = net.constant("direction_axis", np.array([1], np.int64))
    state = {}
    for layer in range(layers):
        names = (f"hidden{layer}", f"cell{layer}") if carried else ()
        for name in names:
            state[f"{name}.next"] = (1, batch, hidden)
            net.input(name, (1, batch, hidden))
        x = net.node("Squeeze", [_lstm(net, x, hidden, f"lstm{layer}", names), axes], f"lstm{layer}.result")
    net.node("Transpose", [x], "state", perm=[1, 0, 2])
    projection = net.constant("projection.weight", net.normal((hidden, words), (_PROJECTION_GAIN / hidden) ** 0.5))
    bias = net.constant("projection.bias", net.uniform(-0.1, 0.1, (words,)))
    net.node("MatMul", ["state", projection], "projection")
    logits = net.node("Add", ["projection", bias], "logits")
    return net.model({logits: (batch, steps, words), **state})


def _lstm(net: NetworkBuilder, x: str, hidden: int, name: str, state: tuple[str, ...]) -> str:
    """One direction over [steps, batch, hidden]: [steps, 1, batch, hidden].

    `state` names the initial state, if any; the final one has these names with `.next`.
    """
    operands = [x]
    for key, shape in (("weight", (GATES * hidden, hidden)), ("recurrence", (GATES * hidden, hidden))):
        operands.append(net.constant(f"{name}.{key}", net.normal((1, *shape), (_CELL_GAIN / hidden) ** 0.5)))
    operands.append(net.constant(f"{name}.bias", net.uniform(-0.1, 0.1, (1, 2 * GATES * hidden))))
    ends = [f"{item}.next" for item in state]
    return net.nodes("LSTM", [*operands, "", *state] if state else operands, name, [name, *ends], hidden_size=hidden)
