"""The layers that the benchmark of the mapper compares: each as a template and as a definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition, of_workload
from vdla.compiler.operators.workloads import Workload, workloads
from vdla.compiler.templates import Operator, conv2d_transpose, dense, depthwise_conv2d, pool2d, residual_add
from vdla.hardware.config import Config
from vdla.runtime.layers import layer_operator

THREADS = 2


@dataclass(frozen=True, slots=True)
class MappedLayer:
    """A layer as its template's operator and as its plain definition, both requantised."""

    name: str
    template: Callable[[Config], Operator]
    definition: Callable[[Config], Definition]


def mapped_layers() -> list[MappedLayer]:
    """C1 to C12, D1 to D9, transposed convolutions of DCGAN, and layers of networks that have no
    workload: dense, pooling, residual.
    """
    return [*map(_of_workload, workloads().values()), *_others()]


def _of_workload(layer: Workload) -> MappedLayer:
    def definition(config: Config) -> Definition:
        return of_workload(layer, dtype=config.inp_dtype, weight_dtype=config.wgt_dtype)

    return MappedLayer(layer.name, lambda config: _template(layer, config), definition)


def _template(layer: Workload, config: Config) -> Operator:
    options: dict[str, Any] = {
        "batch": layer.batch,
        "height": layer.height,
        "width": layer.width,
        "kernel": layer.kernel,
        "strides": layer.strides,
        "pads": layer.pads,
    }
    match layer.operator:
        case "depthwise_conv2d":
            return depthwise_conv2d(config, channels=layer.in_channels, **options)
        case "conv2d_transpose":
            return conv2d_transpose(config, in_channels=layer.in_channels, out_channels=layer.out_channels, **options)
    return layer_operator(layer, config, THREADS)


def _others() -> list[MappedLayer]:
    """A classifier and its average, a product of many rows, the pooling of ResNet-18, two of its
    additions.
    """
    return [
        _dense(1, 512, 1000),
        _dense(64, 256, 256),
        _pooling("max pooling 3x3", kind="max", channels=64, size=112, kernel=3, strides=2, pads=1),
        _pooling("average pooling 7x7", kind="average", channels=512, size=7, kernel=7, strides=1, pads=0),
        _residual("residual 56x56", channels=64, size=56),
        _residual("residual 7x7", channels=512, size=7),
    ]


def _dense(rows: int, in_features: int, out_features: int) -> MappedLayer:
    extents: dict[str, Any] = {"rows": rows, "in_features": in_features, "out_features": out_features}

    def definition(config: Config) -> Definition:
        return definitions.dense(**extents, raw=False, dtype=config.inp_dtype, weight_dtype=config.wgt_dtype)

    name = f"dense {rows} x {in_features} x {out_features}"
    return MappedLayer(name, lambda config: dense(config, **extents), definition)


def _pooling(name: str, *, kind: str, channels: int, size: int, kernel: int, strides: int, pads: int) -> MappedLayer:
    window: dict[str, Any] = {"kernel": kernel, "strides": strides, "pads": pads, "channels": channels, "batch": 1}

    def template(config: Config) -> Operator:
        return pool2d(config, kind=kind, height=size, width=size, **window)

    def definition(config: Config) -> Definition:
        return definitions.pooling(kind=kind, size=(size, size), raw=False, dtype=config.inp_dtype, **window)

    return MappedLayer(name, template, definition)


def _residual(name: str, channels: int, size: int) -> MappedLayer:
    options: dict[str, Any] = {"batch": 1, "channels": channels, "factors": (3, 5)}

    def template(config: Config) -> Operator:
        return residual_add(config, height=size, width=size, **options)

    def definition(config: Config) -> Definition:
        return definitions.residual_addition(size=(size, size), raw=False, dtype=config.inp_dtype, **options)

    return MappedLayer(name, template, definition)
