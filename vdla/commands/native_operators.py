"""The operators that `vdla native` compiles, from named numbers; the parameters of each are the keys of --shape.

What `OPERATORS` holds gives a `Build`, so that the numbers are checked before anything of the compiler is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.machine import integer, key_and_value

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.operators.workloads import Workload
    from vdla.compiler.target import Target

Build = Callable[[str, "Target"], "ir.Function"]
"""From a dtype and a target to a function."""


def conv2d(
    height: int, width: int, in_channels: int, out_channels: int, kernel: int, stride: int = 1, padding: int = 0,
    batch: int = 1,
) -> Build:  # fmt: skip
    """x [N, C, H, W], weight [CO, C, K, K]."""

    def build(dtype: str, target: Target) -> ir.Function:
        from vdla.compiler import te
        from vdla.compiler.operators import conv2d as operator

        x = te.placeholder((batch, in_channels, height, width), dtype, "x")
        weight = te.placeholder((out_channels, in_channels, kernel, kernel), dtype, "weight")
        y = operator(x, weight, strides=stride, pads=padding, name="y", target=target)
        return te.create_function([x, weight], [y], "conv2d")

    return build


def depthwise_conv2d(
    height: int, width: int, in_channels: int, kernel: int, stride: int = 1, padding: int = 0, batch: int = 1
) -> Build:
    """x [N, C, H, W], weight [C, 1, K, K]."""

    def build(dtype: str, target: Target) -> ir.Function:
        from vdla.compiler import te
        from vdla.compiler.operators import depthwise_conv2d as operator

        x = te.placeholder((batch, in_channels, height, width), dtype, "x")
        weight = te.placeholder((in_channels, 1, kernel, kernel), dtype, "weight")
        y = operator(x, weight, strides=stride, pads=padding, name="y")
        return te.create_function([x, weight], [y], "depthwise_conv2d")

    return build


def conv2d_transpose(
    height: int, width: int, in_channels: int, out_channels: int, kernel: int, stride: int = 1, padding: int = 0,
    batch: int = 1,
) -> Build:  # fmt: skip
    """x [N, C, H, W], weight [C, CO, K, K]."""

    def build(dtype: str, target: Target) -> ir.Function:
        from vdla.compiler import te
        from vdla.compiler.operators import conv_transpose as operator

        x = te.placeholder((batch, in_channels, height, width), dtype, "x")
        weight = te.placeholder((in_channels, out_channels, kernel, kernel), dtype, "weight")
        y = operator(x, weight, strides=stride, pads=padding, name="y")
        return te.create_function([x, weight], [y], "conv2d_transpose")

    return build


def dense(rows: int, in_features: int, out_features: int) -> Build:
    """x [M, K], weight [N, K]."""

    def build(dtype: str, target: Target) -> ir.Function:
        from vdla.compiler import te
        from vdla.compiler.operators import dense as operator

        x = te.placeholder((rows, in_features), dtype, "x")
        weight = te.placeholder((out_features, in_features), dtype, "weight")
        return te.create_function([x, weight], [operator(x, weight, name="y")], "dense")

    return build


def softmax(rows: int, columns: int) -> Build:
    """x [M, N], along its rows."""

    def build(dtype: str, target: Target) -> ir.Function:
        from vdla.compiler import te
        from vdla.compiler.operators import softmax as operator

        x = te.placeholder((rows, columns), dtype, "x")
        return te.create_function([x], [operator(x, name="y")], "softmax")

    return build


OPERATORS: dict[str, Callable[..., Build]] = {
    function.__name__: function for function in (conv2d, depthwise_conv2d, conv2d_transpose, dense, softmax)
}


def keys(name: str) -> dict[str, inspect.Parameter]:
    """What an operator wants to know."""
    return dict(inspect.signature(OPERATORS[name]).parameters)


def from_settings(name: str, settings: list[str]) -> Build:
    """The operator `name` with KEY=N words."""
    known = keys(name)
    values: dict[str, int] = {}
    for setting in settings:
        key, text = key_and_value("--shape", setting)
        if key not in known:
            raise CommandError(f"native {name}: key must be one of {', '.join(known)}, got {key}")
        if key in values:
            raise CommandError(f"native {name}: {key} must be given once, got it twice")
        values[key] = integer(f"native {name}: {key}", text)
    missing = [key for key, option in known.items() if option.default is option.empty and key not in values]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"native {name}: shape must give {', '.join(missing)}, got none (--shape {example})")
    return OPERATORS[name](**values)


def from_workload(layer: Workload) -> Build:
    """The operator of a named layer."""
    return OPERATORS[layer.operator](**{key: getattr(layer, key) for key in keys(layer.operator)})
