# SPDX-License-Identifier: Apache-2.0
"""A program that stays on a device: its constants are written once.

Its activations (inputs, outputs, scratch) hold nothing from run to run, so that all programs of a
network share one block of memory for them. They share resident tensors by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import STREAM, Program, allocated_sizes, from_bytes, to_bytes, with_parts
from vdla.runtime.devices import ALIGNMENT, Device
from vdla.runtime.devices.residents import Residents
from vdla.simulator.stats import RunStats

Array = npt.NDArray[Any]


_ACTIVATIONS = ("input", "output", "scratch")


def activation_bytes(program: Program) -> int:
    """The bytes of memory for the activations of a program."""
    return _places(program)[1]


def _places(program: Program) -> tuple[dict[str, int], int]:
    """The offset of every activation, and the end of the last."""
    offsets: dict[str, int] = {}
    end = 0
    for tensor in program.tensors:
        if tensor.role in _ACTIVATIONS:
            offsets[tensor.name] = end
            end += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


@dataclass(frozen=True, slots=True)
class ResidentDamage:
    """The first byte of a tensor, or of the stream, that differs from what was written."""

    tensor: str
    offset: int
    expected: int
    got: int
    count: int


class ResidentProgram:
    """A program with memory on a device; `constants` are arrays by the names of its tensors.

    `activations` is the address of `activation_bytes` bytes, which hold inputs, outputs and scratch
    during a run; `residents` has the resident tensors, `written` the addresses of constants that
    another program has on the device. Arrays have the elements of their tensor, in
    its order; their shape may differ.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        constants: Mapping[str, Array],
        activations: int,
        residents: Residents | None = None,
        written: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.program, self.device, self._constants = program, device, dict(constants)
        self._stack = ExitStack()
        places = {name: offset for name, offset in _places(program)[0].items() if name not in constants}
        self._addresses = {name: activations + offset for name, offset in places.items()}
        held = {} if residents is None else residents.addresses(program, device)
        known = {**places, **held, **written}
        sizes = {name: nbytes for name, nbytes in allocated_sizes(program).items() if name not in known}
        try:
            for name, nbytes in sizes.items():
                self._addresses[name] = device.allocate(max(1, nbytes))
                self._stack.callback(device.free, self._addresses[name])
            for tensor in program.tensors:
                if tensor.data is not None and tensor.name not in held:
                    device.write(self._addresses[tensor.name], np.frombuffer(tensor.data, np.uint8))
            for name, array in constants.items():
                if name not in written:
                    self._write(name, array)
            self._addresses |= {**held, **written}
            self._move_parts({})
            device.write(self._addresses[STREAM], program.link(self._addresses).reshape(-1))
        except BaseException:
            self.close()
            raise

    def run(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        offsets: Mapping[str, int] = MappingProxyType({}),
    ) -> RunStats:
        """Run on `inputs` and fill `outputs`, arrays by the names of the program's tensors;
        `offsets` has the bytes at which parts lie in their wholes, all 0 without.

        ProgramError for an offset that leaves a whole.
        """
        if self._offsets != offsets:
            self._move_parts(offsets)
            self.device.write(self._addresses[STREAM], self.program.link(self._addresses).reshape(-1))
        for name, array in inputs.items():
            self._write(name, array)
        statistics = self.device.run(self.program, self._addresses)
        for name, array in outputs.items():
            tensor = self.program.tensor(name)
            value = from_bytes(tensor, self.device.read(self._addresses[name], tensor.nbytes))
            array[...] = value.reshape(array.shape)
        return statistics

    def _move_parts(self, offsets: Mapping[str, int]) -> None:
        self._addresses = with_parts(self.program, self._addresses, offsets)
        self._offsets = dict(offsets)

    def _write(self, name: str, array: Array) -> None:
        tensor = self.program.tensor(name)
        self.device.write(self._addresses[name], to_bytes(tensor, array.reshape(tensor.shape)))

    def address(self, name: str) -> int:
        """Where a tensor is on the device."""
        return self._addresses[name]

    def damage(self) -> ResidentDamage | None:
        """The first change of what stays on the device: constants, then the stream."""
        contents = {
            tensor.name: np.frombuffer(tensor.data, np.uint8)
            for tensor in self.program.tensors
            if tensor.data is not None and tensor.role != "resident"
        }
        for name, array in self._constants.items():
            tensor = self.program.tensor(name)
            contents[name] = to_bytes(tensor, array.reshape(tensor.shape))
        contents[STREAM] = self.program.link(self._addresses).reshape(-1)
        for name, expected in contents.items():
            got = self.device.read(self._addresses[name], len(expected))
            where = np.flatnonzero(got != expected)
            if len(where):
                first = int(where[0])
                return ResidentDamage(name, first, int(expected[first]), int(got[first]), len(where))
        return None

    def close(self) -> None:
        """Free the memory; the program cannot run afterwards."""
        self._stack.close()
