# SPDX-License-Identifier: Apache-2.0
"""The loss of accuracy of a whole network, for an extension that reads narrower weights.

The float network is quantised twice on the same data: as the plain machine computes it, and with
the narrower weights in those layers in which the machine with the extension would use it. Both run
in integers, and their outputs are compared with those of the float network.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.network.batches import batches
from vdla.runtime.studies.layers import EvaluateError, OperandTypes
from vdla.support.atomic import write_text
from vdla.support.cache import user_cache
from vdla.support.toolkit_digest import toolkit_digest

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class OutputErrors:
    """A quantised network against the float one: root mean square of the errors of its outputs
    over that of the outputs, and the share of samples whose largest output is the same.
    """

    error: float
    agreement: float


@dataclass(frozen=True, slots=True)
class NetworkAccuracy:
    """Errors before and after on `samples` samples, and how many of the network's layers have
    weights of the extension's type, of all that have weights.
    """

    samples: int
    narrower: int
    layers: int
    before: OutputErrors
    after: OutputErrors


@dataclass(frozen=True, slots=True)
class AccuracyJob:
    """A float model, as `vdla.quantise` takes it, and `samples` of its inputs: arrays by name, in
    any number of rows.

    `content` tells jobs apart; `model` and `samples` are called if the accuracy is not kept.
    """

    content: bytes
    model: Callable[[], Any]
    samples: Callable[[Any], Sequence[Arrays]]


def network_accuracy(
    job: AccuracyJob, used: Sequence[str], before: OperandTypes, after: OperandTypes
) -> NetworkAccuracy:
    """The accuracy of a model with the weights of `after` in the layers of the names `used`: the
    first half of the samples calibrates it, the others are compared.

    Raises:
        EvaluateError: fewer than two samples, or an extension that reads narrower activations.
        QuantiseError: the network has no layer to quantise, or data do not fit it.
    """
    if before.inp != after.inp:
        rule = f"activations of a network must be {before.inp}"
        raise EvaluateError(f"evaluate: {rule}, got an extension for {after.inp}")
    names, types = sorted(used) if after.wgt != before.wgt else [], after
    text = json.dumps([toolkit_digest(), names, types.inp, types.wgt])
    digest = hashlib.sha256(text.encode() + job.content).hexdigest()[:24]
    path = user_cache("evaluate") / f"accuracy-{digest}.json"
    try:
        return _of_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none is kept, or it is damaged
    model = job.model()
    result = _measured(model, names, types, job.samples(model))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(asdict(result)))
    return result


def _of_dict(values: dict[str, Any]) -> NetworkAccuracy:
    errors = {side: OutputErrors(**values[side]) for side in ("before", "after")}
    return NetworkAccuracy(**{**values, **errors})


def _measured(
    model: Any,  # noqa: ANN401  as `vdla.quantise` takes it
    names: Sequence[str],
    types: OperandTypes,
    given: Sequence[Arrays],
) -> NetworkAccuracy:
    from vdla.runtime.network.import_network import import_network
    from vdla.runtime.network.quantise import quantise

    samples = _rows(import_network(model), given)
    if len(samples) < 2:
        raise EvaluateError(f"evaluate: samples must be at least 2, got {len(samples)}")
    calibration, others = samples[: len(samples) // 2], samples[len(samples) // 2 :]
    before = quantise(model, calibration=calibration)
    weighted = [layer for layer in before.plan.layers if layer.weight]
    bits = {layer.name: _bits(types.wgt) for layer in weighted if _name(before.float_graph, layer.node) in names}
    exact = _outputs(before.float_graph, others)
    errors = [_error(exact, _outputs(_integer(before.graph), others))]
    if bits:
        after = quantise(model, calibration=calibration, weight_bits=bits)
        errors.append(_error(exact, _outputs(_integer(after.graph), others)))
    return NetworkAccuracy(
        samples=len(others), narrower=len(bits), layers=len(weighted), before=errors[0], after=errors[-1]
    )


def _rows(graph: Graph, given: Sequence[Arrays]) -> list[dict[str, NDArray[Any]]]:
    """The samples, each of the batch that the graph takes, or of one row if that is symbolic."""
    result = []
    for arrays in given:
        for batch in batches(graph, arrays):
            count = len(next(iter(batch.values())))
            fixed = all(isinstance((graph.tensor(name).shape or (1,))[0], int) for name in batch)
            rows = count if fixed else 1
            result += [{name: array[at : at + rows] for name, array in batch.items()} for at in range(0, count, rows)]
    return result


def _name(graph: Graph, node: Any) -> str | None:  # noqa: ANN401  a node of the graph
    from vdla.runtime.studies.network import record_name

    return record_name(graph, node)


def _bits(dtype: str) -> int:
    match = re.fullmatch(r"u?int(\d+)", dtype)
    assert match is not None, "operands are integers"
    return int(match[1])


def _integer(graph: Graph) -> Graph:
    """The quantised network with integer operators, as every device computes it."""
    from vdla.compiler.graph.passes import fuse_qdq
    from vdla.runtime.network.evaluate_nodes import evaluate_node

    return fuse_qdq(graph, lambda node, inputs: evaluate_node(node, inputs, prefer="numpy"))


def _outputs(graph: Graph, samples: Sequence[Arrays]) -> list[NDArray[np.float64]]:
    """The first output for each sample."""
    from vdla.runtime.network.evaluator import Evaluator

    evaluator = Evaluator(graph, prefer="size")
    return [np.asarray(evaluator.run(dict(sample))[graph.outputs[0]], np.float64) for sample in samples]


def _error(exact: Sequence[NDArray[np.float64]], outputs: Sequence[NDArray[np.float64]]) -> OutputErrors:
    noise = sum(float(((one - other) ** 2).sum()) for one, other in zip(exact, outputs, strict=True))
    signal = sum(float((one**2).sum()) for one in exact)
    same = [one.argmax(axis=-1) == other.argmax(axis=-1) for one, other in zip(exact, outputs, strict=True)]
    share = float(np.mean(np.concatenate([np.ravel(item) for item in same])))
    return OutputErrors(error=float(np.sqrt(noise / max(signal, 1e-300))), agreement=share)
