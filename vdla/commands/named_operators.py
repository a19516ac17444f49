# SPDX-License-Identifier: Apache-2.0
"""Operators that the command line names: templates, definitions, operators of CPUs and GPUs, layers
and functions of a user's file.

The options of the first three are the parameters of functions, read from their signatures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from vdla.commands import CommandError
from vdla.commands.machine_options import integer, key_and_value
from vdla.support import user_file
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.operators.definitions import Definition
    from vdla.compiler.operators.vdla import Operator
    from vdla.compiler.operators.workloads import Workload
    from vdla.compiler.target import Target
    from vdla.hardware.config import Config

Template = Callable[..., "Operator"]
Build = Callable[[str, "Target | None"], "ir.Function"]
"""From a dtype and a CPU to a function; without a CPU, one for a grid of threads."""
Parameters = Mapping[str, inspect.Parameter]

_DEFAULTS: Mapping[str, Any] = {"batch": 1}  # of the command line, where a function has none


# --- options --------------------------------------------------------------------------------------


def values_of(where: str, settings: Sequence[str], parameters: Parameters) -> dict[str, Any]:
    """The arguments of a function as KEY=VALUE words, converted to the types of its parameters."""
    values: dict[str, Any] = {}
    for setting in settings:
        key, text = key_and_value("--shape", setting)
        if key not in parameters:
            raise CommandError(f"{where}: key must be {one_of(key, parameters)}")
        value = _value(f"{where}: {key}", parameters[key], text)
        if key in values:
            raise CommandError(f"{where}: {key} must be given once, got it twice")
        values[key] = value
    values = {key: value for key, value in _DEFAULTS.items() if key in parameters} | values
    missing = [key for key, parameter in parameters.items() if is_required(parameter) and key not in values]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"{where}: shape must give {', '.join(missing)}, got none (--shape {example})")
    return values


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether an argument must be given."""
    return parameter.default is parameter.empty and parameter.name not in _DEFAULTS


def _value(where: str, parameter: inspect.Parameter, text: str) -> Any:  # noqa: ANN401  of the parameter
    annotation = str(parameter.annotation)
    if isinstance(parameter.default, bool):
        if text not in ("yes", "no"):
            raise CommandError(f"{where} must be yes or no, got {text!r}")
        return text == "yes"
    if parameter.annotation in (str, "str") or _words(parameter):
        return text
    if "Pair" in annotation and "x" in text:
        return _integers(where, text)
    if "Sequence" in annotation:
        parts = tuple(integer(where, part) for part in text.split("x"))
        return parts[0] if len(parts) == 1 and "int |" in annotation else parts
    return integer(where, text)


def _integers(where: str, text: str) -> tuple[int, ...]:
    """The integers of HxW or TOPxLEFTxBOTTOMxRIGHT."""
    try:
        return tuple(int(part) for part in text.split("x"))
    except ValueError:
        raise CommandError(f"{where} must be integers joined by x, got {text!r}") from None


def refuse_shape(command: str, name: str, settings: Sequence[str], kind: str = "a named layer") -> None:
    """CommandError for --shape, which what `name` names does not take."""
    if settings:
        raise CommandError(f"{command} {name}: --shape must be left out for {kind}, got {settings[0]}")


def layer_names() -> list[str]:
    """The layers of networks that the project knows."""
    from vdla.compiler.operators.workloads import workloads

    return list(workloads())


# --- templates of the accelerator -----------------------------------------------------------------

# Set by options of their own, or not of the form KEY=VALUE.
_NO_KEYS = ("config", "virtual_threads", "name", "tiling", "factors", "input_zero_points")


def templates() -> dict[str, Template]:
    """Every template by name."""
    from vdla.compiler import templates as room

    return _functions(room, "Operator")


def _functions(room: Any, result: str) -> dict[str, Callable[..., Any]]:  # noqa: ANN401  a package
    """The public functions of a room that return a type."""
    exported = {name: getattr(room, name) for name in room.__all__}
    functions = {name: item for name, item in exported.items() if inspect.isfunction(item)}
    returned = {name: inspect.signature(item).return_annotation for name, item in functions.items()}
    return {name: functions[name] for name, type in returned.items() if getattr(type, "__name__", type) == result}


def template_keys(template: Template) -> dict[str, inspect.Parameter]:
    """The keys of --shape that a template takes."""
    parameters = inspect.signature(template).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in _NO_KEYS}


def described(template: Template) -> tuple[list[str], list[str]]:
    """The keys of a template as they are written: the required ones, the others in brackets."""
    required, optional = [], []
    for key, parameter in template_keys(template).items():
        if is_required(parameter):
            required.append(f"{key}={_words(parameter) or 'N'}")
        else:
            default = _DEFAULTS.get(key, parameter.default)
            optional.append(f"[{key}={_words(parameter) or _default(default)}]")
    return required, optional


def _words(parameter: inspect.Parameter) -> str:
    """The words that an option may be, the default first."""
    return "|".join(get_args(parameter.annotation))


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "yes|no" if value else "no|yes"
    return "N" if value is None else str(value)


def from_settings(command: str, name: str, config: Config, settings: list[str], threads: int) -> Operator:
    """The operator of a template with options as KEY=VALUE words."""
    template = templates()[name]
    values = values_of(f"{command} {name}", settings, template_keys(template))
    return template(config, **values, virtual_threads=threads)


def from_workload(layer: Workload, config: Config, threads: int) -> Operator:
    """The operator of a named workload."""
    template = templates()[layer.operator]
    known = template_keys(template)
    values = {key: value for key, value in {**asdict(layer), "channels": layer.in_channels}.items() if key in known}
    return template(config, name=layer.name, **values, virtual_threads=threads)


def virtual_threads(operator: Operator) -> int:
    """The virtual threads that an operator runs with."""
    from vdla.compiler import ir

    loops = [stmt for stmt in ir.walk(operator.function.body) if isinstance(stmt, ir.For)]
    return max((int(loop.size) for loop in loops if loop.kind is ir.LoopKind.VTHREAD), default=1)


# --- operators of CPUs and GPUs: numbers are checked before the compiler is imported --------------


def conv2d(
    height: int, width: int, in_channels: int, out_channels: int, kernel: int, strides: int = 1, pads: int = 0,
    batch: int = 1,
) -> Build:  # fmt: skip
    """x [N, C, H, W], weight [CO, C, K, K]."""
    weight = (out_channels, in_channels, kernel, kernel)
    return _build("conv2d", (batch, in_channels, height, width), weight, strides=strides, pads=pads)


def depthwise_conv2d(
    height: int, width: int, in_channels: int, kernel: int, strides: int = 1, pads: int = 0, batch: int = 1
) -> Build:
    """x [N, C, H, W], weight [C, 1, K, K]."""
    weight = (in_channels, 1, kernel, kernel)
    return _build("depthwise_conv2d", (batch, in_channels, height, width), weight, strides=strides, pads=pads)


def conv2d_transpose(
    height: int, width: int, in_channels: int, out_channels: int, kernel: int, strides: int = 1, pads: int = 0,
    batch: int = 1,
) -> Build:  # fmt: skip
    """x [N, C, H, W], weight [C, CO, K, K]."""
    weight = (in_channels, out_channels, kernel, kernel)
    return _build("conv_transpose", (batch, in_channels, height, width), weight, strides=strides, pads=pads)


def dense(rows: int, in_features: int, out_features: int) -> Build:
    """x [M, K], weight [N, K]."""
    return _build("dense", (rows, in_features), (out_features, in_features))


def softmax(rows: int, columns: int) -> Build:
    """x [M, N], along its rows."""
    return _build("softmax", (rows, columns))


OPERATORS: dict[str, Callable[..., Build]] = {
    function.__name__: function for function in (conv2d, depthwise_conv2d, conv2d_transpose, dense, softmax)
}


def _build(name: str, *shapes: tuple[int, ...], **options: int) -> Build:
    """The function `y = name(x, weight, **options)`."""

    def build(dtype: str, target: Target | None) -> ir.Function:
        from vdla.compiler import operators, te

        operator = getattr(operators, name)
        tensors = [te.placeholder(shape, dtype, tensor) for shape, tensor in zip(shapes, ("x", "weight"), strict=False)]
        takes_target = target is not None and "target" in inspect.signature(operator).parameters
        for_target = {"target": target} if takes_target else {}
        return te.create_function(tensors, [operator(*tensors, name="y", **options, **for_target)], name)

    return build


def operator_keys(name: str) -> Parameters:
    """The keys of --shape that an operator takes."""
    return inspect.signature(OPERATORS[name]).parameters


def named_operator(command: str, name: str, settings: Sequence[str], others: str = "") -> Build:
    """The operator or the layer called `name`, an operator with KEY=N words.

    `others` are what else the command takes.
    """
    from vdla.compiler.operators.workloads import workload

    if name in OPERATORS:
        return OPERATORS[name](**values_of(f"{command} {name}", settings, operator_keys(name)))
    if name.upper() not in layer_names():
        raise CommandError(f"{command}: operator must be {one_of(name or 'nothing', operator_names(), others)}")
    refuse_shape(command, name, settings)
    layer = workload(name)
    return OPERATORS[layer.operator](**{key: getattr(layer, key) for key in operator_keys(layer.operator)})


def operator_names() -> list[str]:
    """The operators and the layers."""
    return [*OPERATORS, *layer_names()]


# --- definitions, and functions of a user's file --------------------------------------------------


def definitions() -> dict[str, Callable[..., Definition]]:
    """Every definition by name."""
    from vdla.compiler.operators import definitions as room

    return {name: define for name, define in _functions(room, "Definition").items() if define is not room.of_workload}


def definition_of(command: str, name: str, settings: Sequence[str]) -> Definition:
    """A definition with options as KEY=VALUE words."""
    define = definitions()[name]
    parameters = inspect.signature(define).parameters
    options = {key: parameter for key, parameter in parameters.items() if "dtype" not in key}
    return define(**values_of(f"{command} {name}", settings, options))


def expression_of_file(command: str, where: str) -> tuple[str, Any]:
    """The tensor that a function of the user's file returns."""
    from vdla.compiler import te

    name, tensor = returned_by(command, where)
    if not isinstance(tensor, te.Tensor):
        raise CommandError(f"{where}: the function must return a tensor, got {tensor!r}")
    return name, tensor


def returned_by(command: str, where: str) -> tuple[str, Any]:
    """The name of a function of the user's file, and what it returns."""
    try:
        return user_file.returned_by(command, where)
    except user_file.UserFileError as error:
        raise CommandError(str(error)) from error
