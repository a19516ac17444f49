# SPDX-License-Identifier: Apache-2.0
"""The plan of a compiled network: steps in order, and where every value lives.

Values are named. A value is constant, or has a place in the arena, or is allocated by the step that
computes it (`offset` None: its extents are known only then, as those of a loop's results may be). A
reshaped value is an alias: the same
bytes under another shape. Values that share bytes of the arena are never live at the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.numpy_operators.blocked import ChannelBlocks

STORED_IN_BYTES = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8"}
"""The types of less than a byte, and the types of a byte in which their elements are stored."""
_NUMPY = {"bool", "float16", "float32", "float64", "complex64", "complex128"}
_NUMPY |= {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype that stores elements of a type.

    Raises:
        ArtifactError: no such type, or one of a package that is not installed.
    """
    if name in STORED_IN_BYTES:
        return np.dtype(STORED_IN_BYTES[name])
    if name in _NUMPY:
        return np.dtype(name)
    if name == "str":
        return np.dtype(object)
    try:
        import ml_dtypes  # only networks of such types need it

        result: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError, TypeError):
        raise ArtifactError(f"artifact: element type must be one that NumPy or ml_dtypes has, got {name}") from None
    return result


def size_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """The bytes of an array."""
    return prod(shape) * numpy_dtype(dtype).itemsize


ARENA_ALIGNMENT = 64  # bytes: the widest vectors
DEVICE_ALIGNMENT = 512  # bytes: where parts of a buffer may begin on every GPU


@dataclass(frozen=True, slots=True)
class PlannedValue:
    """A value: element type, extents (None: unknown until it is computed), place in the arena.

    `alias_of` names the value that it is a reshaped view of.
    """

    dtype: str
    shape: tuple[int, ...] | None
    offset: int | None = None
    alias_of: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceValue(PlannedValue):
    """A value in the memory of the GPU; its place is in an arena of that memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOperator:
    """An operator: the reason for its placement, and what would change it.

    An operator without a reason packs or unpacks tensors for the accelerator, or had no choice.
    `seconds` is the estimate by which its device was chosen; `cycles` are those of the simulator.
    `extensions` are the instructions of the machine's extensions that run it; `no_extension` says
    why there is none, on a machine that has some: what it must do. `least_cycles` are those that no
    program of its products is below, `waits` is the counter with most cycles of waiting in it.
    """

    op: str
    name: str
    reason: str
    change: str = ""
    macs: int = 0
    seconds: float | None = None
    cycles: int | None = None
    extensions: tuple[str, ...] = field(default_factory=tuple)
    no_extension: str = field(default_factory=str)
    least_cycles: int = field(default_factory=int)
    waits: str = field(default_factory=str)


@dataclass(frozen=True, slots=True)
class Placement:
    """The device of a step, its operators, and the bytes that it reads and writes.

    `cycles` are those of the simulator, for a program, `least_cycles` those that no program of the
    same operators is below, as `limited_by` sets them: compute, reads or writes. `waits` has the
    cycles that the compute unit spends on what it waits for most.
    """

    device: str
    operators: tuple[PlacedOperator, ...]
    nbytes: int = 0
    cycles: int | None = None
    least_cycles: int = field(default_factory=int)
    limited_by: str = field(default_factory=str)
    waits: Mapping[str, int] = field(default_factory=dict)

    @property
    def macs(self) -> int:
        """The multiply-accumulates of all operators."""
        return sum(operator.macs for operator in self.operators)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStep:
    """A compiled kernel: `arguments` are values, in the order of its signature."""

    name: str
    kernel: int
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStep:
    """A program of the accelerator: `tensors` maps its tensors to values.

    `offsets` maps parts of its resident tensors to values of one integer, the bytes at which they
    lie in their wholes; resident tensors stay on the device and are no values. `lines` has the
    number of its source lines that belong to each operator of the placement.
    """

    name: str
    program: int
    tensors: Mapping[str, str]
    lines: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    placement: Placement
    offsets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumpyStep:
    """A NumPy function, by the name of its operator; an absent value is the empty name.

    `layouts` has those of its values that are images in blocks of channels.
    """

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    placement: Placement
    layouts: Mapping[str, ChannelBlocks] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStep:
    """An If, Loop or Scan, whose bodies are plans of their own.

    Captured values are the last inputs of the step and of every body; `attributes` counts them
    (`captures`). A body has an arena of its own, which every iteration fills anew; constants,
    kernels and programs are those of the artifact. `rows` are the types of the outputs of the body
    of a Loop or Scan, unknown extents 0: what stacks of no iteration have.
    """

    name: str
    op: str
    attributes: Mapping[str, Any]
    bodies: Mapping[str, Plan]
    rows: tuple[PlannedValue, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class GridStep:
    """A function of the GPU: `arguments` are values in its memory, or constants."""

    name: str
    kernel: int
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """A copy of one value from the memory of the host to that of the GPU, or back."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    placement: Placement


Step = KernelStep | ProgramStep | NumpyStep | ControlStep | GridStep | CopyStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A network as steps; `inputs` and `outputs` are names of values, in the model's order."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, PlannedValue | DeviceValue]
    steps: tuple[Step, ...]
    arena_bytes: int = 0
    arena_bytes_without_reuse: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def input_shapes(self) -> str:
        """The inputs with their shapes, as text."""
        return ", ".join(f"{name}{shape_text(self.values[name].shape)}" for name in self.inputs)

    @property
    def is_open(self) -> bool:
        """Whether inputs may have several shapes."""
        return any([self.values[name].shape is None for name in self.inputs])

    @property
    def device_bytes(self) -> int:
        """The bytes of the arena in the memory of the GPU."""
        return max((_end(value) for value in self.values.values() if isinstance(value, DeviceValue)), default=0)

    @property
    def bodies(self) -> tuple[Plan, ...]:
        """The plans of all bodies, those within bodies included."""
        bodies = [body for step in self.steps if isinstance(step, ControlStep) for body in step.bodies.values()]
        return tuple(item for body in bodies for item in (body, *body.bodies))

    @property
    def memory_bytes(self) -> tuple[int, int]:
        """The bytes of the arenas of the plan and all bodies; the same without reuse."""
        plans = (self, *self.bodies)
        return sum(plan.arena_bytes for plan in plans), sum(plan.arena_bytes_without_reuse for plan in plans)


def _end(value: PlannedValue) -> int:
    """The first byte behind a value in its arena."""
    return 0 if value.offset is None or value.shape is None else value.offset + size_bytes(value.dtype, value.shape)


def shape_text(shape: tuple[int, ...] | None) -> str:
    """A shape as text: [1, 3], or [...] where it is unknown."""
    return "[...]" if shape is None else str(list(shape))
