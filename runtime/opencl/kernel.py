"""A function on an OpenCL device, called with NumPy arrays.

Arrays are copied to the device and back at each call; `seconds` is the time of the kernels alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.abi import MAX_EXTENT, Argument, Signature, element_bytes, evaluate_extent
from vdla.compiler.codegen.opencl import Launch, OpenClSource, emit_opencl
from vdla.runtime.native.arguments import ArgumentPacker, Array, NativeError
from vdla.runtime.opencl.devices import OpenClDevice, open_opencl, pyopencl
from vdla.runtime.opencl.errors import OpenClDeviceError
from vdla.runtime.opencl.program import build_program

Outputs = Array | tuple[Array, ...]
_NANOSECOND = 1e-9


class OpenClKernel:
    """A function on a device; `source` is its OpenCL C, `signature` describes its arguments."""

    def __init__(self, source: OpenClSource, device: OpenClDevice) -> None:
        self.source = source
        self.device = device
        self.seconds = 0.0
        """The time of the kernels of the last call, as the device measured it."""
        self._packer = ArgumentPacker(source.signature)
        program = build_program(device, source.text)
        self._kernels = [pyopencl().Kernel(program, launch.kernel) for launch in source.launches]

    @property
    def signature(self) -> Signature:
        """The arguments."""
        return self.source.signature

    def __call__(self, /, *arrays: Array, out: Array | Sequence[Array] | None = None, **named: Array) -> Outputs:
        """Run on the inputs, given in order or by name; returns the output, or a tuple of outputs.

        `out` are the arrays to write, else new ones. Arrays are row-major and contiguous, of the
        kernel's shapes and dtypes; outputs overlap no other argument.

        Raises:
            NativeError: an argument breaks a rule.
            OpenClDeviceError: the device runs out of memory, or fails.
        """
        packer = self._packer
        inputs = packer.inputs_in_order(arrays, named)
        outputs = packer.outputs_for(inputs, out)
        given = packer.arguments_in_order(inputs, outputs)
        packer.pack(given)  # for its checks
        self._check_overlap(given)
        cl = pyopencl()
        try:
            self._run(given, outputs)
        except (cl.MemoryError, cl.RuntimeError, cl.LogicError) as error:
            reason = str(error).strip().splitlines()[0]
            raise OpenClDeviceError(f"{self.signature.name}: {self.device.name} must run it, got {reason}") from None
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
        cl, queue = pyopencl(), self.device.queue
        scalars = self._scalars(given)
        memory = {
            argument.name: self._buffer(argument, array)
            for argument, array in zip(self.signature.arguments, given, strict=True)
        }
        memory |= {argument.name: self._temporary(argument, scalars) for argument in self.source.temporaries}
        launched = zip(self.source.launches, self._kernels, strict=True)
        events = [self._launch(launch, kernel, memory, scalars) for launch, kernel in launched]
        for argument, array in zip(self.signature.outputs, outputs, strict=True):
            cl.enqueue_copy(queue, _bytes(array), memory[argument.name])
        queue.finish()
        self.seconds = sum(event.profile.end - event.profile.start for event in events) * _NANOSECOND

    def _scalars(self, given: Sequence[Array]) -> dict[str, int]:
        """The symbolic extents of a call."""
        found = {}
        for name in self.signature.scalars:
            position, dimension = self.signature.source(name)
            found[name] = given[position].shape[dimension]
        return found

    def _buffer(self, argument: Argument, array: Array) -> Any:  # noqa: ANN401  a pyopencl.Buffer
        """An argument in device memory."""
        cl = pyopencl()
        flags = cl.mem_flags
        if array.size == 0:
            return cl.Buffer(self.device.context, flags.READ_WRITE, size=element_bytes(argument.dtype))
        if argument.output:
            return cl.Buffer(self.device.context, flags.READ_WRITE, size=array.nbytes)
        return cl.Buffer(self.device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=_bytes(array))

    def _temporary(self, argument: Argument, scalars: Mapping[str, int]) -> Any:  # noqa: ANN401
        """An intermediate array in device memory."""
        count = prod(evaluate_extent(extent, scalars) for extent in argument.shape)
        if count > MAX_EXTENT:
            rule = f"{argument.name} must have at most {MAX_EXTENT} elements"
            raise OpenClDeviceError(f"{self.signature.name}: {rule}, got {count}")
        cl = pyopencl()
        size = max(count, 1) * element_bytes(argument.dtype)
        return cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, size=size)

    def _launch(self, launch: Launch, kernel: Any, memory: Mapping[str, Any], scalars: Mapping[str, int]) -> Any:  # noqa: ANN401
        """Start one kernel; its event."""
        groups = [evaluate_extent(extent, scalars) for extent in launch.groups]
        total = [g * t for g, t in zip(groups, launch.threads, strict=True)]
        arguments = [*(memory[name] for name in launch.buffers), *(np.int32(scalars[name]) for name in launch.scalars)]
        kernel.set_args(*arguments)
        return pyopencl().enqueue_nd_range_kernel(self.device.queue, kernel, total, list(launch.threads))

    def __repr__(self) -> str:
        names = ", ".join(argument.name for argument in self.signature.arguments)
        return f"<OpenClKernel {self.signature.name}({names}) on {self.device.name}>"


def build_opencl(fn: ir.Function, device: str = "") -> OpenClKernel:
    """Compile a function, scheduled by `bind` or not, for a device, named as in `open_opencl`.

    Raises:
        OpenClDeviceError: no such device, or its compiler refuses the source.
        SignatureError, PassError, OpenClError: as `emit_opencl`.
    """
    opened = open_opencl(device)
    return OpenClKernel(emit_opencl(fn, opened.limits), opened)


def _bytes(array: Array) -> Array:
    """The memory of a contiguous array as bytes; pyopencl does not know every dtype."""
    return array.reshape(-1).view(np.uint8)
