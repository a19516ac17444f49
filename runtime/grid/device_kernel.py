# SPDX-License-Identifier: Apache-2.0
"""A compiled function on a device: called with NumPy arrays, or run on arrays of the device.

A call copies its arrays to the device and back; `seconds` is the time of the kernels alone. Bound
to arrays of the device, the function runs in their stream and copies nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.abi import MAX_EXTENT, Argument, Signature, evaluate_extent, format_shape
from vdla.runtime.grid.protocol import DeviceArray, DeviceStream, GridDevice, GridDeviceError, GridSource, LoadedKernel
from vdla.runtime.native.arguments import ArgumentPacker, NativeError

Array = NDArray[Any]
Outputs = Array | tuple[Array, ...]
_Arguments = Sequence[DeviceArray | int]


class BoundKernel:
    """A function with its arguments and temporaries in device memory; a call starts its kernels."""

    def __init__(self, starts: Sequence[tuple[LoadedKernel, Sequence[int], _Arguments]], stream: DeviceStream) -> None:
        self._starts, self._stream = starts, stream

    def __call__(self) -> None:
        """Start the kernels, in order."""
        for kernel, groups, arguments in self._starts:
            self._stream.launch(kernel, groups, arguments)


class DeviceKernel:
    """A function on a device; `source` is its text, `signature` describes its arguments."""

    def __init__(self, source: GridSource, device: GridDevice) -> None:
        self.source = source
        self.device = device
        self.seconds = 0.0
        """The time of the kernels of the last call, as the device measured it."""
        self._packer = ArgumentPacker(source.signature)
        self._kernels = device.load(source)

    @property
    def signature(self) -> Signature:
        """The arguments."""
        return self.source.signature

    # --- on arrays of the host

    def __call__(self, /, *arrays: Array, out: Array | Sequence[Array] | None = None, **named: Array) -> Outputs:
        """Run on the inputs, given in order or by name; returns the output, or a tuple of outputs.

        `out` are the arrays to write, else new ones. Arrays are row-major and contiguous, of the
        kernel's shapes and dtypes; outputs overlap no other argument.

        Raises:
            NativeError: an argument breaks a rule.
            GridDeviceError: the device runs out of memory, or fails.
        """
        packer = self._packer
        inputs = packer.inputs_in_order(arrays, named)
        outputs = packer.outputs_for(inputs, out)
        given = packer.arguments_in_order(inputs, outputs)
        packer.pack(given)  # for its checks
        self._check_overlap(given)
        self._run(given, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _check_overlap(self, given: Sequence[Array]) -> None:
        """Refuse an output that shares memory with another argument."""
        for argument, array in zip(self.signature.arguments, given, strict=True):
            others = [
                other.name
                for other, a in zip(self.signature.arguments, given, strict=True)
                if other is not argument and argument.output and np.may_share_memory(a, array)
            ]
            if others:
                rule = f"{argument.name} must not overlap another argument"
                raise NativeError(f"{self.signature.name}: {rule}, got memory of {', '.join(others)}")

    def _run(self, given: Sequence[Array], outputs: Sequence[Array]) -> None:
        stream = self.device.default_stream
        memory = [
            self.device.empty(array.shape, argument.dtype) if argument.output else stream.upload(array)
            for argument, array in zip(self.signature.arguments, given, strict=True)
        ]
        bound = self._bound(stream, memory)
        start = stream.record()
        bound()
        end = stream.record()
        written = [array for argument, array in zip(self.signature.arguments, memory, strict=True) if argument.output]
        for array, output in zip(written, outputs, strict=True):
            stream.download(array, output)
        self.seconds = end.seconds_since(start)

    # --- on arrays of the device

    def enqueue(self, stream: DeviceStream, *arrays: DeviceArray) -> None:
        """Run in a stream on arrays of the device, inputs and outputs in the signature's order.

        Raises:
            NativeError: an array of another type or shape.
            GridDeviceError: the device runs out of memory, or fails.
        """
        self.bind(stream, arrays)()

    def bind(self, stream: DeviceStream, arrays: Sequence[DeviceArray]) -> BoundKernel:
        """A call that runs on these arrays, with its temporaries allocated.

        Raises:
            NativeError: an array of another type or shape.
            GridDeviceError: the device runs out of memory.
        """
        self._check(arrays)
        return self._bound(stream, arrays)

    def _check(self, arrays: Sequence[DeviceArray]) -> None:
        expected = self.signature.arguments
        if len(arrays) != len(expected):
            names = ", ".join(argument.name for argument in expected)
            raise NativeError(f"{self.signature.name}: arrays must be given for {names}, got {len(arrays)} arrays")
        scalars = self._scalars(arrays)
        for argument, array in zip(expected, arrays, strict=True):
            shape = tuple(evaluate_extent(extent, scalars) for extent in argument.shape)
            if (array.dtype, array.shape) != (argument.dtype, shape):
                rule = f"{argument.name} must be {argument.dtype}{format_shape(argument.shape)}"
                raise NativeError(f"{self.signature.name}: {rule}, got {array.dtype}{array.shape}")

    def _bound(self, stream: DeviceStream, arrays: Sequence[DeviceArray]) -> BoundKernel:
        scalars = self._scalars(arrays)
        memory = {argument.name: array for argument, array in zip(self.signature.arguments, arrays, strict=True)}
        memory |= {argument.name: self._temporary(argument, scalars) for argument in self.source.temporaries}
        starts: list[tuple[LoadedKernel, Sequence[int], _Arguments]] = []
        for launch, kernel in zip(self.source.launches, self._kernels, strict=True):
            groups = [evaluate_extent(extent, scalars) for extent in launch.groups]
            extents = [scalars[name] for name in launch.scalars]
            starts.append((kernel, groups, [*(memory[name] for name in launch.buffers), *extents]))
        return BoundKernel(starts, stream)

    def _scalars(self, arrays: Sequence[Array | DeviceArray]) -> Mapping[str, int]:
        """The symbolic extents of a call."""
        result = {}
        for name in self.signature.scalars:
            position, dimension = self.signature.source(name)
            shape = arrays[position].shape
            result[name] = shape[dimension] if dimension < len(shape) else 0
        return result

    def _temporary(self, argument: Argument, scalars: Mapping[str, int]) -> DeviceArray:
        """An intermediate array in device memory."""
        shape = tuple(evaluate_extent(extent, scalars) for extent in argument.shape)
        if prod(shape) > MAX_EXTENT:
            rule = f"{argument.name} must have at most {MAX_EXTENT} elements"
            raise GridDeviceError(f"{self.signature.name}: {rule}, got {prod(shape)}")
        return self.device.empty(shape, argument.dtype)

    def __repr__(self) -> str:
        names = ", ".join(argument.name for argument in self.signature.arguments)
        return f"<DeviceKernel {self.signature.name}({names}) on {self.device.name}>"
