# SPDX-License-Identifier: Apache-2.0
"""The layers of the benchmarks of mapper and tuner: each as a template and as a definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition, of_workload
from vdla.compiler.operators.least_cycles import LeastCycles, inputs_used, least_cycles
from vdla.compiler.operators.workload_bound import MachineBound, bound
from vdla.compiler.operators.workloads import SELF_TEST, Workload, workloads
from vdla.compiler.templates import Operator, conv2d_transpose, dense, depthwise_conv2d, pool2d, residual_add
from vdla.compiler.tune import VdlaTask, layer_task, template_task
from vdla.hardware.config import Config
from vdla.runtime.diagnosis.layers import layer_operator

THREADS = 2


@dataclass(frozen=True, slots=True)
class MappedLayer:
    """A layer as its template's operator and as its plain definition, both requantised; its tuning
    task, and the cycles that no program can be below.
    """

    name: str
    template: Callable[[Config], Operator]
    definition: Callable[[Config], Definition]
    task: Callable[[Config], VdlaTask]
    bound: Callable[[Config], int]
    least: Callable[[Config], LeastCycles]


def mapped_layers() -> list[MappedLayer]:
    """C1 to C12, D1 to D9, transposed convolutions of DCGAN, and layers of networks that have no
    workload: dense, pooling, residual.
    """
    return [*map(_of_workload, workloads().values()), *_others()]


def _of_workload(layer: Workload) -> MappedLayer:
    def definition(config: Config) -> Definition:
        return of_workload(layer, dtype=config.inp_dtype, weight_dtype=config.wgt_dtype)

    return MappedLayer(
        name=layer.name,
        template=lambda config: _template(layer, config),
        definition=definition,
        task=lambda config: layer_task(layer, config),
        bound=lambda config: bound(layer, config).cycles,
        least=lambda config: least_cycles(layer, config),
    )


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
    shape: dict[str, Any] = {"height": rows, "width": 1, "in_channels": in_features, "out_channels": out_features}
    product = replace(SELF_TEST, **shape, kernel=1, strides=1, pads=0)
    return MappedLayer(
        name=name,
        template=lambda config: dense(config, **extents),
        definition=definition,
        task=lambda config: template_task(dense, config, **extents, name=name),
        bound=lambda config: bound(product, config).cycles,
        least=lambda config: least_cycles(product, config),
    )


def _pooling(name: str, *, kind: str, channels: int, size: int, kernel: int, strides: int, pads: int) -> MappedLayer:
    window: dict[str, Any] = {"kernel": kernel, "strides": strides, "pads": pads, "channels": channels, "batch": 1}

    options: dict[str, Any] = {"kind": kind, "height": size, "width": size, **window}
    shape: dict[str, Any] = {"kernel": kernel, "strides": strides, "pads": pads, "height": size, "width": size}
    shape |= {"operator": "depthwise_conv2d", "in_channels": channels, "out_channels": channels}
    depthwise = replace(SELF_TEST, **shape)

    def definition(config: Config) -> Definition:
        return definitions.pooling(kind=kind, size=(size, size), raw=False, dtype=config.inp_dtype, **window)

    def limit(config: Config) -> int:
        """That of the depthwise convolution of this size, which reads weights too."""
        limits = bound(depthwise, config)
        read = _moved(config, channels * size * size)
        return max(limits.compute_cycles, limits.write_cycles, read.read_cycles)

    return MappedLayer(
        name=name,
        template=lambda config: pool2d(config, **options),
        definition=definition,
        task=lambda config: template_task(pool2d, config, **options, name=name),
        bound=limit,
        least=lambda config: LeastCycles.of(
            config,
            steps=bound(depthwise, config).macs // (config.batch * config.block_out),
            read_bytes=inputs_used(depthwise) * config.inp_bits // 8,
            written_bytes=channels * depthwise.out_height * depthwise.out_width * config.out_bits // 8,
        ),
    )


def _residual(name: str, channels: int, size: int) -> MappedLayer:
    options: dict[str, Any] = {"batch": 1, "channels": channels, "factors": (3, 5)}
    image = {**options, "height": size, "width": size}
    entries = channels * size * size

    def definition(config: Config) -> Definition:
        return definitions.residual_addition(size=(size, size), raw=False, dtype=config.inp_dtype, **options)

    return MappedLayer(
        name=name,
        template=lambda config: residual_add(config, **image),
        definition=definition,
        task=lambda config: template_task(residual_add, config, **image, name=name),
        bound=lambda config: _moved(config, 2 * entries, entries).cycles,
        least=lambda config: LeastCycles.of(
            config,
            steps=2 * entries // (config.batch * config.block_out),  # each of both is read by one
            read_bytes=2 * entries * config.inp_bits // 8,
            written_bytes=entries * config.out_bits // 8,
        ),
    )


def _moved(config: Config, read: int, written: int = 0) -> MachineBound:
    """The bound that moving the activations sets."""
    return MachineBound.of(config, 0, read * config.inp_bits // 8, written * config.out_bits // 8)
