# SPDX-License-Identifier: Apache-2.0
"""`compile(what, target)`: a program for an accelerator, a kernel for a CPU, a model for both.

    program = compile(schedule, "pynq_z1")
    kernel = compile(schedule, "host")
    kernel = compile(schedule, "opencl")
    kernel = compile(schedule, "cuda")

The kind of target decides which code generator runs; no name is both a preset and a CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from vdla.runtime.network.targets import target_of
from vdla.support.errors import Error
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.operators.vdla import Operator
    from vdla.compiler.schedule import Schedule
    from vdla.compiler.target import GridLimits, Target
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.runtime.executor.model import Model
    from vdla.runtime.grid.device_kernel import DeviceKernel
    from vdla.runtime.native import Kernel
    from vdla.runtime.network.import_network import ModelSource
    from vdla.runtime.tune.best import TunedSchedules


_GRIDS = {"opencl": "an OpenCL device", "cuda": "a CUDA device"}
"""Devices with a grid of threads."""
_NETWORKS = {
    "onnx": "ModelProto",
    "vdla.compiler.graph": "Graph",
    "vdla.runtime.network.quantised_network": "QuantisedNetwork",
}
"""The classes of networks by module, which is loaded where there is an instance."""


class CompileError(Error, ValueError):
    """A wrong argument, an unknown target, or an option that the target does not have."""


@overload
def compile(
    what: Schedule | ir.Function | Operator,
    target: Config,
    *,
    weights: Sequence[str] | None = None,
    layouts: Mapping[str, str] | None = None,
    tuned: TunedSchedules | str | Path | None = None,
) -> Program: ...
@overload
def compile(
    what: Schedule | ir.Function, target: Target, *, contract: bool | None = None, cached: bool | None = None
) -> Kernel: ...
@overload
def compile(what: ModelSource, target: Config | Target | str, **network: Any) -> Model: ...  # noqa: ANN401
@overload
def compile(
    what: Schedule | ir.Function | Operator,
    target: str,
    *,
    weights: Sequence[str] | None = None,
    layouts: Mapping[str, str] | None = None,
    contract: bool | None = None,
    cached: bool | None = None,
    tuned: TunedSchedules | str | Path | None = None,
) -> Any: ...  # noqa: ANN401  the name decides
def compile(
    what: Schedule | ir.Function | Operator | ModelSource,
    target: Config | Target | str,
    *,
    weights: Sequence[str] | None = None,
    layouts: Mapping[str, str] | None = None,
    contract: bool | None = None,
    cached: bool | None = None,
    tuned: TunedSchedules | str | Path | None = None,
    threads: int | None = None,
    **network: Any,
) -> Program | Kernel | DeviceKernel | Model:
    """A `Program` for a `Config` or a preset's name; a `Kernel` for a `Target` or a CPU's name.

    A `DeviceKernel` for "opencl", the first GPU of this machine or else its first OpenCL device, or
    for "opencl:NAME", the device whose name or platform contains NAME. There, a function without
    bound loops gets the default schedule, `grid_schedule`, or with `tuned` the best tiles of `vdla
    tune --target opencl`. "cuda" and "cuda:NAME" do the same for the devices of NVIDIA's driver, by
    default the first.

    `what` is a Schedule, a function, or the result of a template, whose configuration must be the
    target. A function is compiled as given: unscheduled, it is slow on a CPU.

    The file of an ONNX model, its content, a model in memory, or what `vdla.quantise` returned
    becomes a `Model`, for a machine with a CPU beside it, for a CPU alone, or for "opencl", a GPU
    with the CPU of this machine. Its options are `cpu`, `gpu`, `extents`, `calibration`, `method`,
    `keep_float`, `place`, `observe` and `progress`, as `compile_network` describes them:
    `gpu="opencl"` adds a GPU to a machine.

    For programs: `weights` names the inputs that are constant between runs; `layouts` names the
    dimensions of tensors. For kernels: `contract=False` forbids fused multiply-adds;
    `cached=False` ignores the cache of compiled objects.

    With `tuned`, templates and the operators of models take their best schedule in a log of `vdla
    tune`, a folder of logs, or "shipped", the log of the paper's operators; operators that are not
    in the log keep their default schedule. Without it, no log is read. For the kernels of a model
    on a CPU, schedules tuned for `threads` threads are used (default one).

    Raises:
        TuningError: a log cannot be read or has another version.
        CompileError: a wrong argument, an unknown target, or an option of the other kind of target.
        Error: any other error of the code generator; it names the place.
    """
    from vdla.hardware.config import Config

    if isinstance(target, str) and target.split(":")[0] in _GRIDS and not _is_model(what):
        given = {"weights": weights, "layouts": layouts, "contract": contract, "cached": cached}
        _chosen({}, {**given, "threads": threads, **network}, f"device {target}")
        return _device_kernel(what, target, tuned)
    if _is_model(what):
        _chosen({}, {"weights": weights, "layouts": layouts, "contract": contract, "cached": cached}, "model")
        return _model(cast("ModelSource", what), target, tuned, threads, network)
    _refuse_threads(threads, "for all but models")
    if network:
        option, value = next(iter(network.items()))
        raise CompileError(f"compile: {option} must be left out for all but models, got {value!r}")
    machine = target_of(target, CompileError)
    of_programs, of_kernels = {"weights": weights, "layouts": layouts}, {"contract": contract, "cached": cached}
    if isinstance(machine, Config):
        options = _chosen(of_programs, of_kernels, f"accelerator {machine.name}")
        return _program(_retuned(what, tuned), machine, options)
    return _kernel(what, machine, _chosen(of_kernels, {**of_programs, "tuned": tuned}, f"CPU {machine.name}"))


def _model(
    source: ModelSource,
    target: Config | Target | str,
    tuned: TunedSchedules | str | Path | None,
    threads: int | None,
    options: Mapping[str, Any],
) -> Model:
    from vdla.runtime.network.kept_models import KEYED, kept_or_compiled

    if not set(options) <= set(KEYED):
        _check_options(options)
    if tuned is None:
        _refuse_threads(threads, "without tuned")
        return kept_or_compiled(source, target, **options)
    from vdla.runtime.network.compile_network import compile_network
    from vdla.runtime.tune.best import TunedSchedules

    schedules = TunedSchedules.of(tuned)
    points = partial(schedules.kernel_point, threads=1 if threads is None else threads)
    with _tuned(schedules):
        return compile_network(source, target, kernel_points=points, **options)


def _check_options(options: Mapping[str, Any]) -> None:
    from vdla.runtime.network.compile_network import compile_network

    known = [*signature(compile_network).parameters][2:]
    for name in options:
        if name not in known:
            raise CompileError(f"compile: option of a network must be {one_of(name, known)}")


def _refuse_threads(threads: int | None, where: str) -> None:
    if threads is not None:
        raise CompileError(f"compile: threads must be left out {where}, got {threads!r}")


def _tuned(tuned: TunedSchedules | str | Path | None) -> AbstractContextManager[None]:
    """A context in which templates take the best known schedules."""
    if tuned is None:
        return nullcontext()
    from vdla.compiler.operators.vdla.operator import chosen_options
    from vdla.runtime.tune.best import TunedSchedules

    return chosen_options(TunedSchedules.of(tuned).options)


def _retuned(what: object, tuned: TunedSchedules | str | Path | None) -> object:
    """The result of a template, made again with its best known schedule."""
    if tuned is None:
        return what
    from vdla.compiler.operators.vdla import Operator

    if not isinstance(what, Operator) or what.origin is None:
        raise CompileError(f"compile: tuned must be left out for all but templates and models, got {tuned!r}")
    with _tuned(tuned):
        return what.origin.template(what.config, **what.origin.options)


def _is_model(what: object) -> bool:
    """Whether `what` is a network rather than an operator."""
    if isinstance(what, str | Path | bytes):
        return True
    loaded = {module: sys.modules[module] for module in _NETWORKS if module in sys.modules}
    return isinstance(what, tuple(getattr(module, _NETWORKS[name], ()) for name, module in loaded.items()))


def _chosen(choices: Mapping[str, Any], foreign: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options that were given, all of them of this kind of target."""
    for name, value in foreign.items():
        if value is not None:
            raise CompileError(f"compile: {name} must be left out for the {where}, got {value!r}")
    return {name: value for name, value in choices.items() if value is not None}


def _program(what: object, config: Config, options: Mapping[str, Any]) -> Program:
    from vdla.compiler.codegen.vdla import compile_function
    from vdla.compiler.operators.vdla import Operator

    if not isinstance(what, Operator):
        return compile_function(config, _function(what), **options)
    if options:
        raise CompileError(f"compile: {', '.join(options)} must be left out for a template, which has its own")
    if what.config != config:
        made = f"{what.name} was made for {what.config.name}"
        raise CompileError(f"compile: target must be the configuration of the template ({made}), got {config.name}")
    return what.program


def _kernel(what: object, target: Target, options: Mapping[str, Any]) -> Kernel:
    from vdla.compiler.operators.vdla import Operator
    from vdla.runtime.native import build

    if isinstance(what, Operator):
        raise CompileError(f"compile: target of a template must be an accelerator, got the CPU {target.name}")
    return build(_function(what), target, **options)


def _device_kernel(what: object, target: str, tuned: TunedSchedules | str | Path | None) -> DeviceKernel:
    from vdla.compiler.ir import THREAD, For, walk
    from vdla.compiler.operators.gpu import grid_schedule
    from vdla.compiler.operators.vdla import Operator
    from vdla.runtime.grid.registry import build_on_grid, open_grid_device

    if isinstance(what, Operator):
        kind = _GRIDS[target.partition(":")[0]]
        raise CompileError(f"compile: target of a template must not be {kind}, got {target}")
    fn = _function(what)
    if any(isinstance(stmt, For) and THREAD in stmt.annotations for stmt in walk(fn.body)):
        if tuned is not None:
            raise CompileError(f"compile: tuned must be left out for a function with bound loops, got {tuned!r}")
        return build_on_grid(fn, target)
    limits = open_grid_device(target).limits
    best = None if tuned is None else _best_on_grid(fn, limits, tuned)
    return build_on_grid(grid_schedule(fn, limits).fn if best is None else best, target)


def _best_on_grid(fn: ir.Function, limits: GridLimits, tuned: TunedSchedules | str | Path) -> ir.Function | None:
    """A function with its best known tiles; None if a log does not know better ones."""
    from vdla.runtime.tune.best import TunedSchedules

    return TunedSchedules.of(tuned).grid_function(fn, limits)


def _function(what: object) -> ir.Function:
    from vdla.compiler import ir
    from vdla.compiler.schedule import Schedule

    if isinstance(what, Schedule):
        return what.fn
    if not isinstance(what, ir.Function):
        rule = "what must be a Schedule, a Function or a network (a path, bytes or a model)"
        raise CompileError(f"compile: {rule}, got {type(what).__name__}")
    return what
