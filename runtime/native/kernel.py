"""Native kernels in this process: `build(fn)` compiles and loads, the kernel is called with numpy arrays.

kernel = build(schedule.fn)
c = kernel(a, b)

Calls need no lock and hold none: several threads may be in one kernel at once, and Python runs meanwhile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdla.compiler.abi import Signature
from vdla.runtime.native.arguments import Array, NativeError, Packer, checked_threads

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.codegen.llvm import NativeObject
    from vdla.compiler.target import Target

__all__ = ["BoundCall", "Kernel", "NativeError", "build", "load", "set_threads", "threads"]

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32)
SET_THREADS = ctypes.CFUNCTYPE(None, ctypes.c_int32)
THREADS = ctypes.CFUNCTYPE(ctypes.c_int32)

Outputs = Array | tuple[Array, ...]


class Kernel:
    """A loaded kernel. `signature` says its arguments; the code stays while the kernel lives."""

    def __init__(self, signature: Signature, address: int, keeper: object) -> None:
        self.signature = signature
        self._packer = Packer(signature)
        self._entry = ENTRY(address)
        self._count = len(signature.arguments)
        self._single = len(signature.outputs) == 1
        self._keeper = keeper

    def __call__(self, /, *arrays: Array, out: Array | Sequence[Array] | None = None, **named: Array) -> Outputs:
        """Run on the inputs, in order or by name; the output, or a tuple of outputs, which are those of `out` if given.

        Arrays are row-major and contiguous, of the kernel's shapes and dtypes; outputs overlap nothing.

        Raises:
            NativeError: an argument breaks a rule, which is named; or there is no memory for intermediate results.
        """
        packer = self._packer
        inputs = packer.place(arrays, named)
        outputs = packer.results(inputs, out)
        everything = packer.ordered(inputs, outputs)
        packed = packer.pack(everything)
        code = self._entry(packed.structs, self._count)
        if code:
            packer.refuse(code, everything)
        return outputs[0] if self._single else tuple(outputs)

    def bind(self, /, *arrays: Array, out: Array | Sequence[Array] | None = None, **named: Array) -> BoundCall:
        """The call with these arrays, checked and prepared once; what they hold may change from run to run."""
        inputs = self._packer.place(arrays, named)
        outputs = self._packer.results(inputs, out)
        return BoundCall(self, self._packer.ordered(inputs, outputs), tuple(outputs))

    def __repr__(self) -> str:
        return f"<Kernel {self.signature.name}({', '.join(argument.name for argument in self.signature.arguments)})>"


class BoundCall:
    """A prepared call: `bound()` runs it into the same outputs every time."""

    def __init__(self, kernel: Kernel, arrays: Sequence[Array], outputs: tuple[Array, ...]) -> None:
        self._kernel = kernel
        self._arrays = arrays
        self._packed = kernel._packer.pack(arrays)
        self._entry, self._structs, self._count = kernel._entry, self._packed.structs, kernel._count
        self.outputs = outputs

    def __call__(self) -> Outputs:
        """Run; the output, or a tuple of outputs."""
        code = self._entry(self._structs, self._count)
        if code:
            self._kernel._packer.refuse(code, self._arrays)
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def __repr__(self) -> str:
        return f"<BoundCall {self._kernel.signature.name}>"


def build(fn: ir.Function, target: str | Target = "host", *, contract: bool = True, cached: bool = True) -> Kernel:
    """The kernel of a function, scheduled or not, compiled for this machine; options as of `compile_native`.

    Raises:
        NativeError: the target is not of this machine.
        TargetError, SignatureError, PassError: as `compile_native`.
    """
    from vdla.compiler.codegen.llvm import compile_native

    return load(compile_native(fn, target, contract=contract, cached=cached))


def load(built: NativeObject) -> Kernel:
    """The kernel of an object that was compiled for this machine.

    Raises:
        NativeError: it is none, or the target is not of this machine.
    """
    from vdla.compiler.codegen.llvm import NativeObject
    from vdla.compiler.target import target_named
    from vdla.runtime.native.jit import load as load_object

    if not isinstance(built, NativeObject):
        raise NativeError(f"load: built must be a NativeObject, as of compile_native, got {type(built).__name__}")
    host = target_named("host")
    if built.target.architecture != host.architecture:
        kind, name = host.architecture, built.target.name
        raise NativeError(f"{built.name}: target must be of this machine ({kind}), got {name} (link its object there)")
    lacking = sorted(built.target.features - host.features)
    if lacking:
        raise NativeError(f"{built.name}: target must have features of this machine, got {', '.join(lacking)}")
    loaded = load_object(built.object, built.name)
    return Kernel(built.signature, loaded.addresses[built.name], loaded)


def set_threads(count: int) -> None:
    """Let parallel loops use up to `count` threads, the caller among them; 0 is what VDLA_THREADS says, else all."""
    limit = checked_threads("set_threads: count", count)
    SET_THREADS(_pool("vdla_set_threads"))(limit)


def threads() -> int:
    """How many threads parallel loops may use."""
    return int(THREADS(_pool("vdla_threads"))())


def _pool(name: str) -> Any:  # noqa: ANN401  an address
    from vdla.runtime.native.jit import pool

    return pool().addresses[name]
