# SPDX-License-Identifier: Apache-2.0
"""Resident tensors on a device: allocated once, they keep their bytes from run to run.

Programs share those of one name, such as programs for several lengths of one cache: a program's
tensor is as many of the first bytes as it declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from vdla.hardware.program import Program, ProgramError, ProgramTensor, from_bytes, to_bytes
from vdla.runtime.devices.device import Device
from vdla.support.arrays import Array, Bytes

if TYPE_CHECKING:
    from typing_extensions import Self


class Residents:
    """The resident tensors of programs on an open device, by name; the longest declares each.

        with open_device("sim", program.config) as device, Residents(device, [program]) as kept:
            run(program, inputs, device, residents=kept, offsets={"row": 64})
            kept.read("cache")

    Raises:
        ProgramError: tensors of one name differ in dtype, or in the bytes that they begin with.
        DeviceError: the device has too little memory.
    """

    def __init__(self, device: Device, programs: Sequence[Program]) -> None:
        self.device = device
        self.tensors: dict[str, ProgramTensor] = {}
        for program in programs:
            for tensor in _residents(program):
                self._add(program, tensor)
        self.restarts = 0
        """How often the tensors were what they were in the beginning."""
        self._addresses: dict[str, int] = {}
        self._stack = ExitStack()
        try:
            for name, tensor in self.tensors.items():
                self._addresses[name] = device.allocate(tensor.nbytes)
                self._stack.callback(device.free, self._addresses[name])
                if tensor.data is not None:
                    device.write(self._addresses[name], _begin(tensor))
        except BaseException:
            self.close()
            raise

    def _add(self, program: Program, tensor: ProgramTensor) -> None:
        known = self.tensors.setdefault(tensor.name, tensor)
        where, size = f"program {program.name}: resident {tensor.name}", min(known.nbytes, tensor.nbytes)
        if known.dtype != tensor.dtype:
            raise ProgramError(f"{where} must be {known.dtype} in every program, got {tensor.dtype}")
        differing = np.flatnonzero(_begin(known)[:size] != _begin(tensor)[:size])
        if len(differing):
            raise ProgramError(f"{where} must begin alike in every program, got another byte {differing[0]}")
        if tensor.nbytes > known.nbytes:
            self.tensors[tensor.name] = tensor

    def addresses(self, program: Program, device: Device) -> Mapping[str, int]:
        """The addresses of a program's resident tensors, for a run on the device.

        ProgramError for a tensor that is not here, or longer than it is here; for another device.
        """
        if device is not self.device:
            raise ProgramError(
                f"program {program.name}: residents must be on the device {device.name} of the run, "
                f"got another device {self.device.name}"
            )
        for tensor in _residents(program):
            known = self.tensors.get(tensor.name)
            if known is None or known.nbytes < tensor.nbytes or known.dtype != tensor.dtype:
                got = "none" if known is None else f"{known.dtype} of {known.nbytes} bytes"
                raise ProgramError(
                    f"program {program.name}: residents must have {tensor.name}, {tensor.dtype} of at least "
                    f"{tensor.nbytes} bytes, got {got}; give all programs to Residents"
                )
        return {tensor.name: self._addresses[tensor.name] for tensor in _residents(program)}

    def read(self, name: str) -> Array:
        """A copy of a tensor, in the shape of the longest declaration."""
        tensor = self._tensor(name)
        return from_bytes(tensor, self.device.read(self._addresses[name], tensor.nbytes))

    def write(self, name: str, array: Array) -> None:
        """Set a tensor; ProgramError for another shape or dtype."""
        self.device.write(self._addresses[self._tensor(name).name], to_bytes(self._tensor(name), array))

    def restart(self) -> None:
        """Let all tensors be what they were in the beginning."""
        self.restarts += 1
        for name, tensor in self.tensors.items():
            self.device.write(self._addresses[name], _begin(tensor))

    def _tensor(self, name: str) -> ProgramTensor:
        if name not in self.tensors:
            raise ProgramError(f"residents: name must be one of {', '.join(self.tensors) or 'none'}, got {name}")
        return self.tensors[name]

    def close(self) -> None:
        """Free the memory."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _residents(program: Program) -> list[ProgramTensor]:
    return [tensor for tensor in program.tensors if tensor.role == "resident"]


def _begin(tensor: ProgramTensor) -> Bytes:
    """What a tensor holds before the first run."""
    return np.zeros(tensor.nbytes, np.uint8) if tensor.data is None else np.frombuffer(tensor.data, np.uint8)
