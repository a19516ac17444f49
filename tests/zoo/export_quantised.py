# SPDX-License-Identifier: Apache-2.0
"""Writes quantised.zip: models of torch_dynamo.zip and torch_script.zip through the quantisers of
ONNX Runtime, in each format.

pip install -e . onnxruntime
python tests/zoo/export_quantised.py
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from vdla.verification.zoo.archive import FOLDER, Array, Writer, ZooModel, onnxruntime_outputs, read

STATIC = [
    "lenet",
    "vgg",
    "resnet",
    "resnext",
    "densenet",
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilenet_v3",
    "efficientnet",
    "shufflenet",
    "convnext",
    "inception",
    "squeezenet",
    "c2f",
    "sppf",
    "yolo_head",
    "unet_transpose",
    "unet_nearest",
    "autoencoder",
    "dilated",
    "one_dimension",
    "keywords",
    "anomaly",
    "mlp",
    "encoder",
    "vision_transformer",
    "conv_leakyrelu",
    "conv_sigmoid",
    "conv_hardswish",
    "adaptive_pools",
]
DYNAMIC = ["vgg", "mlp", "lstm", "gru", "encoder", "bert", "vision_transformer", "mixer", "resnet", "anomaly"]
TOLERANCE = 0.05
"""Of the greatest value: a rounding the other way in one layer, through those behind it."""


class Samples(CalibrationDataReader):
    """Eight seeded inputs."""

    def __init__(self, model: ZooModel) -> None:
        self._samples: Iterator[Mapping[str, Array]] = iter([model.entry.draw(seed) for seed in range(1, 9)])

    def get_next(self) -> Mapping[str, Array] | None:
        return next(self._samples, None)


WAYS = {
    "qdq": {"quant_format": QuantFormat.QDQ, "per_channel": True},
    "qdq_uint8": {
        "quant_format": QuantFormat.QDQ,
        "activation_type": QuantType.QUInt8,
        "weight_type": QuantType.QUInt8,
    },
    "qdq_16": {
        "quant_format": QuantFormat.QDQ,
        "activation_type": QuantType.QUInt16,
        "extra_options": {"ActivationSymmetric": False},
    },
    "operators": {"quant_format": QuantFormat.QOperator, "per_channel": True},
    "operators_uint8": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8},
}


def main() -> None:
    logging.disable(logging.WARNING)
    writer = Writer(FOLDER / "quantised.zip")
    models = {model.entry.name: model for kind in ("dynamo", "script") for model in read(FOLDER / f"torch_{kind}.zip")}
    for index, name in enumerate([*STATIC, *DYNAMIC]):
        dynamic = index >= len(STATIC)
        ways = (
            ["dynamic"]
            if dynamic
            else [
                "qdq",
                "operators" if index % 2 else "qdq_uint8",
                *(["qdq_16"] if index % 5 == 0 else ["operators_uint8"] if index % 3 == 0 else []),
            ]
        )
        source = models.get(f"torch_{'script' if index % 2 else 'dynamo'}_{name}") or models[f"torch_dynamo_{name}"]
        for way in ways:
            label = f"quantised_{way}_{name}"
            with writer.attempt(label):
                content = quantised(source, way)
                entry = replace(
                    source.entry,
                    name=label,
                    exporter=f"onnxruntime {onnxruntime.__version__} {way} of {source.entry.exporter}",
                    tolerance=TOLERANCE,
                )
                writer.add(entry, content, onnxruntime_outputs(content, entry.draw()))
    print(writer.write())


def quantised(source: ZooModel, way: str) -> bytes:
    """The model through one quantiser."""
    with tempfile.TemporaryDirectory() as folder:
        first, ready, last = (str(Path(folder) / name) for name in ("a.onnx", "b.onnx", "c.onnx"))
        Path(first).write_bytes(source.content)
        quant_pre_process(first, ready, skip_symbolic_shape=True)
        if way == "dynamic":
            quantize_dynamic(ready, last)
        else:
            quantize_static(ready, last, Samples(source), **WAYS[way])
        return onnx.load(last).SerializeToString()


if __name__ == "__main__":
    main()
