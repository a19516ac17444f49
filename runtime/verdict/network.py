"""The layers of a network, from its model or from what an earlier run has kept of it.

A model is imported only where its layers are not known, since that takes longer than all else that
is done where results are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.runtime.verdict.errors import EvaluateError
from vdla.runtime.verdict.kept import toolkit_digest
from vdla.runtime.verdict.layer_record import LayerRecord
from vdla.runtime.verdict.layers import EvaluatedLayer, OperandTypes
from vdla.support.atomic import write_text
from vdla.support.cache import user_cache

if TYPE_CHECKING:
    import onnx

_DEFINITIONS = ("convolution", "depthwise_convolution", "transposed_convolution", "dense", "batched_product")


def layers_of(model: onnx.ModelProto | bytes | str | Path) -> list[EvaluatedLayer]:
    """The convolutions and products of a model, each distinct one once, in the machine's types.

    Raises:
        OnnxError, UnsupportedError: the model is not valid. EvaluateError: it has no layer.
    """
    from vdla.runtime.verdict.network_records import records_of

    return _layers(records_of(model))


def kept_layers(content: bytes, model: Callable[[], onnx.ModelProto | Path]) -> list[EvaluatedLayer]:
    """As `layers_of`; `content` tells models apart, and `model` is called if its layers are not
    kept.
    """
    digest = hashlib.sha256(toolkit_digest().encode() + content).hexdigest()[:24]
    path = user_cache("evaluate") / f"layers-{digest}.json"
    try:
        records = [LayerRecord(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
        return _layers(records)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none is kept, or it is damaged
    from vdla.runtime.verdict.network_records import records_of

    records = records_of(model())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps([asdict(record) for record in records]))
    return _layers(records)


def _layers(records: Sequence[LayerRecord]) -> list[EvaluatedLayer]:
    if not records:
        raise EvaluateError("evaluate: the model must have a convolution or product of known extents, got none")
    return [EvaluatedLayer(each.name, partial(_defined, each), each.count) for each in records]


def _defined(record: LayerRecord, operands: OperandTypes) -> Definition:
    if record.define not in _DEFINITIONS:
        raise EvaluateError(f"evaluate: definition must be one of {', '.join(_DEFINITIONS)}, got {record.define}")
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in record.options.items()}
    found: Definition = getattr(definitions, record.define)(**options, dtype=operands.inp, weight_dtype=operands.wgt)
    return found
