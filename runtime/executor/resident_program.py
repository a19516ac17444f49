"""A program that stays on a device: its memory is allocated and its constants are written once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import STREAM, Program, from_bytes, to_bytes
from vdla.runtime.devices import Device
from vdla.simulator.stats import RunStats

Array = npt.NDArray[Any]


class ResidentProgram:
    """A program with memory on a device; `constants` are arrays by the names of its tensors.

    Arrays have the elements of their tensor, in its order; their shape may differ.
    """

    def __init__(self, program: Program, device: Device, constants: Mapping[str, Array]) -> None:
        self.program, self.device = program, device
        self._stack = ExitStack()
        sizes = {tensor.name: tensor.nbytes for tensor in program.tensors} | {STREAM: max(1, program.words.nbytes)}
        self._addresses: dict[str, int] = {}
        try:
            for name, nbytes in sizes.items():
                self._addresses[name] = device.allocate(nbytes)
                self._stack.callback(device.free, self._addresses[name])
            for tensor in program.tensors:
                if tensor.data is not None:
                    device.write(self._addresses[tensor.name], np.frombuffer(tensor.data, np.uint8))
            for name, array in constants.items():
                self._write(name, array)
            device.write(self._addresses[STREAM], program.link(self._addresses).reshape(-1))
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> RunStats:
        """Run on `inputs` and fill `outputs`, arrays by the names of the program's tensors."""
        for name, array in inputs.items():
            self._write(name, array)
        statistics = self.device.run(self.program, self._addresses)
        for name, array in outputs.items():
            tensor = self.program.tensor(name)
            found = from_bytes(tensor, self.device.read(self._addresses[name], tensor.nbytes))
            array[...] = found.reshape(array.shape)
        return statistics

    def _write(self, name: str, array: Array) -> None:
        tensor = self.program.tensor(name)
        self.device.write(self._addresses[name], to_bytes(tensor, array.reshape(tensor.shape)))

    def close(self) -> None:
        """Free the memory; the program cannot run afterwards."""
        self._stack.close()
