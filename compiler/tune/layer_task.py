"""The tuning task of a workload by its template."""

from __future__ import annotations

from vdla.compiler.operators.workloads import Workload
from vdla.compiler.templates import conv2d, conv2d_transpose, depthwise_conv2d
from vdla.compiler.tune.vdla_task import VdlaTask, template_task
from vdla.hardware.config import Config


def layer_task(layer: Workload, config: Config, *, raw: bool = False) -> VdlaTask:
    """The layouts and tiles of a layer; with `raw`, results are the int32 sums."""
    shape = {
        "batch": layer.batch,
        "height": layer.height,
        "width": layer.width,
        "kernel": layer.kernel,
        "strides": layer.strides,
        "pads": layer.pads,
        "raw": raw,
        "name": f"{layer.name}_raw" if raw else layer.name,
    }
    if layer.operator == "depthwise_conv2d":
        return template_task(depthwise_conv2d, config, **shape, channels=layer.in_channels)
    channels = {"in_channels": layer.in_channels, "out_channels": layer.out_channels}
    template = conv2d_transpose if layer.operator == "conv2d_transpose" else conv2d
    return template_task(template, config, **shape, **channels)
