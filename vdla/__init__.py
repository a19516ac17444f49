# SPDX-License-Identifier: Apache-2.0
"""VDLA: tensor expressions to accelerator programs and CPU kernels, simulated exactly and verified.

`__all__` is the public interface. Each name is imported at its first use: `import vdla` loads no
other module, and a board never loads the compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vdla import (
        course,
        definitions,
        devices,
        graph,
        grid,
        intrinsics,
        isa,
        native,
        onnx_backend,
        operators,
        te,
        templates,
    )
    from vdla.compiler.certificates.certify import certify
    from vdla.compiler.certificates.pass_certificate import PassCertifier
    from vdla.compiler.extensions import (
        EmitStage,
        Extension,
        Formulation,
        LayerError,
        NetworkLayer,
        State,
        extend,
        load_extension,
    )
    from vdla.compiler.interpret import interpret
    from vdla.compiler.layer_programs import CachedAttention, LayerProgram, ProgramBuilder
    from vdla.compiler.map import applications
    from vdla.compiler.operators.cpu import default_schedule
    from vdla.compiler.schedule import Schedule
    from vdla.compiler.target import Target
    from vdla.compiler.tensorize import Intrinsic
    from vdla.compiler.tune import Knobs
    from vdla.debugger.debug import debug
    from vdla.debugger.debugger import Debugger
    from vdla.hardware.array_port import ArrayPort, array_port
    from vdla.hardware.asm import assemble, disassemble
    from vdla.hardware.config import Buffer, Config, Dram
    from vdla.hardware.program import Program, ProgramTensor
    from vdla.puzzles.registry import puzzle
    from vdla.runtime.checks.datapath_check import check_datapath
    from vdla.runtime.checks.datapath_test import datapath_cycles, datapath_sources
    from vdla.runtime.checks.intrinsic_check import check_intrinsic
    from vdla.runtime.compile import compile
    from vdla.runtime.devices import open_device
    from vdla.runtime.devices.run import run
    from vdla.runtime.executor.load import load
    from vdla.runtime.executor.model import Model
    from vdla.runtime.generate.compile_decoder import compile_decoder
    from vdla.runtime.generate.quantise_decoder import perplexity, quantise_decoder
    from vdla.runtime.grid.bank_conflicts import bank_conflicts
    from vdla.runtime.native.kernel import Kernel
    from vdla.runtime.network.quantise import quantise
    from vdla.runtime.studies.compiled_verdict import evaluate_network
    from vdla.runtime.studies.energy import estimate_energy
    from vdla.runtime.studies.explanation import explain
    from vdla.runtime.studies.explore import explore
    from vdla.runtime.studies.joint_verdict import evaluate_several
    from vdla.runtime.studies.verdict import evaluate
    from vdla.runtime.tune.grid_runs import tune_grid
    from vdla.runtime.tune.mapping import map_expression
    from vdla.runtime.tune.network_kernels import tune_kernels
    from vdla.runtime.tune.schedule_function import tune_schedule
    from vdla.simulator.simulate import simulate
    from vdla.simulator.stats import Result
    from vdla.simulator.verify import verify
    from vdla.support.errors import Error
    from vdla.viewer.view import RunView, view

__all__ = [
    "ArrayPort",
    "Buffer",
    "CachedAttention",
    "Config",
    "Debugger",
    "Dram",
    "EmitStage",
    "Error",
    "Extension",
    "Formulation",
    "Intrinsic",
    "Kernel",
    "Knobs",
    "LayerError",
    "LayerProgram",
    "Model",
    "NetworkLayer",
    "PassCertifier",
    "Program",
    "ProgramBuilder",
    "ProgramTensor",
    "Result",
    "RunView",
    "Schedule",
    "State",
    "Target",
    "applications",
    "array_port",
    "assemble",
    "bank_conflicts",
    "certify",
    "check_datapath",
    "check_intrinsic",
    "compile",
    "compile_decoder",
    "course",
    "datapath_cycles",
    "datapath_sources",
    "debug",
    "default_schedule",
    "definitions",
    "devices",
    "disassemble",
    "estimate_energy",
    "evaluate",
    "evaluate_network",
    "evaluate_several",
    "explain",
    "explore",
    "extend",
    "graph",
    "grid",
    "interpret",
    "intrinsics",
    "isa",
    "load",
    "load_extension",
    "map_expression",
    "native",
    "onnx_backend",
    "open_device",
    "operators",
    "perplexity",
    "puzzle",
    "quantise",
    "quantise_decoder",
    "run",
    "simulate",
    "te",
    "templates",
    "tune_grid",
    "tune_kernels",
    "tune_schedule",
    "verify",
    "view",
]

_MODULES = (
    "course", "definitions", "devices", "graph", "grid", "intrinsics", "isa", "native", "onnx_backend", "operators",
    "te", "templates",
)  # fmt: skip
_HOMES = {
    "ArrayPort": "vdla.hardware.array_port",
    "Buffer": "vdla.hardware.config",
    "CachedAttention": "vdla.compiler.layer_programs",
    "Config": "vdla.hardware.config",
    "Debugger": "vdla.debugger.debugger",
    "Dram": "vdla.hardware.config",
    "EmitStage": "vdla.compiler.extensions",
    "Error": "vdla.support.errors",
    "Extension": "vdla.compiler.extensions",
    "Intrinsic": "vdla.compiler.tensorize.intrinsic",
    "Kernel": "vdla.runtime.native.kernel",
    "Knobs": "vdla.compiler.tune.knobs",
    "Formulation": "vdla.compiler.extensions",
    "LayerError": "vdla.compiler.extensions",
    "LayerProgram": "vdla.compiler.layer_programs",
    "Model": "vdla.runtime.executor.model",
    "NetworkLayer": "vdla.compiler.extensions",
    "Program": "vdla.hardware.program",
    "ProgramBuilder": "vdla.compiler.layer_programs",
    "ProgramTensor": "vdla.hardware.program",
    "Result": "vdla.simulator.stats",
    "RunView": "vdla.viewer.view",
    "Schedule": "vdla.compiler.schedule",
    "State": "vdla.compiler.extensions",
    "Target": "vdla.compiler.target",
    "applications": "vdla.compiler.map",
    "assemble": "vdla.hardware.asm",
    "disassemble": "vdla.hardware.asm",
    "array_port": "vdla.hardware.array_port",
    "bank_conflicts": "vdla.runtime.grid.bank_conflicts",
    "PassCertifier": "vdla.compiler.certificates.pass_certificate",
    "certify": "vdla.compiler.certificates.certify",
    "check_datapath": "vdla.runtime.checks.datapath_check",
    "check_intrinsic": "vdla.runtime.checks.intrinsic_check",
    "compile": "vdla.runtime.compile",
    "compile_decoder": "vdla.runtime.generate.compile_decoder",
    "datapath_cycles": "vdla.runtime.checks.datapath_test",
    "datapath_sources": "vdla.runtime.checks.datapath_test",
    "debug": "vdla.debugger.debug",
    "default_schedule": "vdla.compiler.operators.cpu",
    "estimate_energy": "vdla.runtime.studies.energy",
    "evaluate": "vdla.runtime.studies.verdict",
    "evaluate_network": "vdla.runtime.studies.compiled_verdict",
    "evaluate_several": "vdla.runtime.studies.joint_verdict",
    "explain": "vdla.runtime.studies.explanation",
    "explore": "vdla.runtime.studies.explore",
    "extend": "vdla.compiler.extensions",
    "interpret": "vdla.compiler.interpret",
    "load": "vdla.runtime.executor.load",
    "load_extension": "vdla.compiler.extensions",
    "map_expression": "vdla.runtime.tune.mapping",
    "open_device": "vdla.runtime.devices",
    "perplexity": "vdla.runtime.generate.quantise_decoder",
    "puzzle": "vdla.puzzles.registry",
    "quantise": "vdla.runtime.network.quantise",
    "quantise_decoder": "vdla.runtime.generate.quantise_decoder",
    "run": "vdla.runtime.devices.run",
    "simulate": "vdla.simulator.simulate",
    "tune_grid": "vdla.runtime.tune.grid_runs",
    "tune_kernels": "vdla.runtime.tune.network_kernels",
    "tune_schedule": "vdla.runtime.tune.schedule_function",
    "verify": "vdla.simulator.verify",
    "view": "vdla.viewer.view",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  any public object
    if name in _MODULES:
        value: Any = import_module(f"vdla.{name}")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name == "__version__":
        value = import_module("vdla.support.version").VERSION
    else:
        from vdla.support.suggest import did_you_mean

        known = ", ".join(__all__)
        raise AttributeError(f"module 'vdla' has no attribute {name!r}; it has {known}{did_you_mean(name, __all__)}")
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
