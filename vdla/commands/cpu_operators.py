"""The operators of `vdla native` and `vdla tune --target`.

The parameters of each function are its keys of --shape.

Each returns a `Build`, so that the numbers are checked before the compiler is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.machine_options import integers
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.operators.workloads import Workload
    from vdla.compiler.target import Target

Build = Callable[[str, "Target | None"], "ir.Function"]
"""From a dtype and a CPU to a function; without a CPU, one for a grid of threads."""

_Shapes = Mapping[str, tuple[int, ...]]


def conv2d(
    height: int, width: int, in_channels: int, out_channels: int, kernel: int, strides: int = 1, pads: int = 0,
    batch: int = 1,
) -> Build:  # fmt: skip
    """x [N, C, H, W], weight [CO, C, K, K]."""
    shapes = {"x": (batch, in_channels, height, width), "weight": (out_channels, in_channels, kernel, kernel)}
    return _build("conv2d", shapes, strides=strides, pads=pads)


def depthwise_conv2d(
    height: int, width: int, in_channels: int, kernel: int, strides: int = 1, pads: int = 0, batch: int = 1
) -> Build:
    """x [N, C, H, W], weight [C, 1, K, K]."""
    shapes = {"x": (batch, in_channels, height, width), "weight": (in_channels, 1, kernel, kernel)}
    return _build("depthwise_conv2d", shapes, strides=strides, pads=pads)


def conv2d_transpose(
    height: int, width: int, in_channels: int, out_channels: int, kernel: int, strides: int = 1, pads: int = 0,
    batch: int = 1,
) -> Build:  # fmt: skip
    """x [N, C, H, W], weight [C, CO, K, K]."""
    shapes = {"x": (batch, in_channels, height, width), "weight": (in_channels, out_channels, kernel, kernel)}
    return _build("conv_transpose", shapes, strides=strides, pads=pads)


def dense(rows: int, in_features: int, out_features: int) -> Build:
    """x [M, K], weight [N, K]."""
    return _build("dense", {"x": (rows, in_features), "weight": (out_features, in_features)})


def softmax(rows: int, columns: int) -> Build:
    """x [M, N], along its rows."""
    return _build("softmax", {"x": (rows, columns)})


OPERATORS: dict[str, Callable[..., Build]] = {
    function.__name__: function for function in (conv2d, depthwise_conv2d, conv2d_transpose, dense, softmax)
}


def _build(name: str, shapes: _Shapes, **options: int) -> Build:
    """The function `y = name(*placeholders, **options)`."""

    def build(dtype: str, target: Target | None) -> ir.Function:
        from vdla.compiler import operators, te

        operator = getattr(operators, name)
        tensors = [te.placeholder(shape, dtype, tensor) for tensor, shape in shapes.items()]
        takes_target = target is not None and "target" in inspect.signature(operator).parameters
        for_target = {"target": target} if takes_target else {}
        return te.create_function(tensors, [operator(*tensors, name="y", **options, **for_target)], name)

    return build


def keys(name: str) -> dict[str, inspect.Parameter]:
    """The keys of --shape that an operator takes."""
    return dict(inspect.signature(OPERATORS[name]).parameters)


def named_operator(command: str, name: str, settings: Sequence[str], others: str = "") -> Build:
    """The operator or the layer called `name`, an operator with KEY=N words.

    `others` are what else the command takes.
    """
    from vdla.compiler.operators.workloads import workload, workloads

    if name in OPERATORS:
        return _from_settings(command, name, settings)
    if name.upper() not in workloads():
        got = f"{name}{did_you_mean(name, operator_names())}" if name else "nothing"
        raise CommandError(f"{command}: operator must be one of {', '.join(operator_names())}{others}, got {got}")
    if settings:
        raise CommandError(f"{command} {name}: --shape must be left out for a named layer, got {settings[0]}")
    return _from_workload(workload(name))


def operator_names() -> list[str]:
    """The operators and the layers."""
    from vdla.compiler.operators.workloads import workloads

    return [*OPERATORS, *workloads()]


def _from_settings(command: str, name: str, settings: Sequence[str]) -> Build:
    """The operator `name` with KEY=N words."""
    known = keys(name)
    values = integers(f"{command} {name}", list(settings), list(known), option="--shape")
    missing = [key for key, option in known.items() if option.default is option.empty and key not in values]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"{command} {name}: shape must give {', '.join(missing)}, got none (--shape {example})")
    return OPERATORS[name](**values)


def _from_workload(layer: Workload) -> Build:
    """The operator of a named layer."""
    return OPERATORS[layer.operator](**{key: getattr(layer, key) for key in keys(layer.operator)})
