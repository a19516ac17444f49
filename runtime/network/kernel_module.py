# SPDX-License-Identifier: Apache-2.0
"""Kernels of a CPU as modules that LLVM has not seen, scheduled and emitted once a process.

Networks repeat operators, and a model is compiled for several machines, or with other options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from vdla.compiler import ir
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.cpu.choices import Answer, Choices, GivenChoices
from vdla.compiler.target import Target

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm import NativeModule

KernelPoint = Mapping[str, Answer]
"""A schedule of a kernel: the answer to each of its choices."""


def kernel_module(function: ir.Function, target: Target, point: KernelPoint | None = None) -> NativeModule:
    """The module of an unscheduled function, in its default schedule or that of a point."""
    return _module(_Question((function, point), (str(function), target, str(point))))


@dataclass(frozen=True, slots=True)
class _Question:
    """A function and its schedule, and what its module depends on."""

    given: tuple[ir.Function, KernelPoint | None] = field(compare=False)
    key: tuple[str, Target, str]


@lru_cache(maxsize=256)
def _module(question: _Question) -> NativeModule:
    from vdla.compiler.codegen.llvm import emit_native

    (function, point), (_, target, _) = question.given, question.key
    choices = Choices() if point is None else GivenChoices(point)
    return emit_native(default_schedule(function, target, choices).fn, target)
