# SPDX-License-Identifier: Apache-2.0
"""Extensions: instructions that a user's file declares, and the machines that have them."""

from vdla.compiler.extensions.behaviour import vanishes
from vdla.compiler.extensions.digits import Splits, digit_splits, split_load
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.formulation import Formulation, NetworkLayer, packed_bits
from vdla.compiler.extensions.intrinsic import cpu_intrinsic, cpu_intrinsics, extension_intrinsic, machine_intrinsics
from vdla.compiler.extensions.load import (
    Declaration,
    Source,
    extend,
    extension_of,
    formulation_of,
    load_extension,
    program_of,
    unit_with_stage,
)
from vdla.compiler.extensions.operations import StepOperation, step_operations
from vdla.compiler.extensions.state import ExtensionError, LayerError, State

__all__ = [
    "Declaration",
    "EmitStage",
    "Extension",
    "ExtensionError",
    "Formulation",
    "LayerError",
    "NetworkLayer",
    "Source",
    "Splits",
    "State",
    "StepOperation",
    "cpu_intrinsic",
    "cpu_intrinsics",
    "digit_splits",
    "extend",
    "extension_intrinsic",
    "extension_of",
    "formulation_of",
    "load_extension",
    "machine_intrinsics",
    "packed_bits",
    "program_of",
    "split_load",
    "step_operations",
    "unit_with_stage",
    "vanishes",
]
