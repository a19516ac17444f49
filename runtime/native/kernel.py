# SPDX-License-Identifier: Apache-2.0
"""Native kernels in this process: `build` compiles and loads them, NumPy arrays call them.

kernel = build(schedule.fn)
c = kernel(a, b)

Calls hold no lock and release the GIL: several threads may be in one kernel at once.

Object files are loaded with LLVM's JIT linker, and all of them share one thread pool, which stays
until the process ends, since its threads run in it.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from vdla.compiler.abi import Signature
from vdla.runtime.native.arguments import ArgumentPacker, Array, NativeError, thread_limit

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.compiler.codegen.llvm import NativeObject
    from vdla.compiler.target import Target


_NUMBERS = itertools.count()
_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class LoadedObject:
    """A loaded object: the addresses of its symbols, and LLVM's handle, which keeps it loaded."""

    addresses: Mapping[str, int]
    handle: Any


def load_object(content: bytes, symbol: str) -> LoadedObject:
    """Load an object file of this machine, to call its function `symbol`.

    Raises:
        NativeError: it calls a function that does not exist, which the lowering of an intrinsic can
            cause; LLVM prints the name on standard error.
    """
    from llvmlite.binding import JITLibraryBuilder

    with _LOCK:
        builder = JITLibraryBuilder().add_object_img(content).export_symbol(symbol).add_current_process()
        for name, address in thread_pool().addresses.items():
            builder.import_symbol(name, address)
        try:
            handle = builder.link(_linker(), f"kernel{next(_NUMBERS)}")
        except RuntimeError as error:
            rule = "functions that its code calls must be LLVM intrinsics or symbols of this process"
            raise NativeError(f"{symbol}: {rule}, got an unknown name (printed above by LLVM)") from error
    return LoadedObject({symbol: handle[symbol]}, handle)


@cache
def thread_pool() -> LoadedObject:
    """The thread pool of this process, which is never unloaded."""
    from llvmlite.binding import JITLibraryBuilder

    from vdla.compiler.codegen.llvm import POOL_SYMBOLS, pool_object
    from vdla.compiler.target import host

    builder = JITLibraryBuilder().add_object_img(pool_object(host())).add_current_process()
    for name in POOL_SYMBOLS:
        builder.export_symbol(name)
    handle = builder.link(_linker(), "pool")
    return LoadedObject({name: handle[name] for name in POOL_SYMBOLS}, handle)


@cache
def _linker() -> Any:  # noqa: ANN401  llvmlite is untyped
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler(use_jit_link=True)


_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32)
_SET_THREADS = ctypes.CFUNCTYPE(None, ctypes.c_int32)
_THREADS = ctypes.CFUNCTYPE(ctypes.c_int32)

Outputs = Array | tuple[Array, ...]


class Kernel:
    """A loaded kernel; `signature` describes its arguments. `owner` keeps its code loaded."""

    def __init__(self, signature: Signature, address: int, owner: object) -> None:
        self.signature = signature
        self._packer = ArgumentPacker(signature)
        self._entry, self.address = _ENTRY(address), address
        self._count = len(signature.arguments)
        self._single = len(signature.outputs) == 1
        self._owner = owner

    def __call__(self, /, *arrays: Array, out: Array | Sequence[Array] | None = None, **named: Array) -> Outputs:
        """Run on the inputs, given in order or by name; returns the output, or a tuple of outputs.

        `out` are the arrays to write, else new ones. Arrays are row-major and contiguous, of the
        kernel's shapes and dtypes; outputs overlap no other argument.

        Raises:
            NativeError: an argument breaks a rule, or memory for intermediate results runs out.
        """
        packer = self._packer
        inputs = packer.inputs_in_order(arrays, named)
        outputs = packer.outputs_for(inputs, out)
        arguments = packer.arguments_in_order(inputs, outputs)
        packed = packer.pack(arguments)
        status = self._entry(packed.structs, self._count)
        if status:
            packer.raise_error(status, arguments)
        return outputs[0] if self._single else tuple(outputs)

    def bind(self, /, *arrays: Array, out: Array | Sequence[Array] | None = None, **named: Array) -> BoundCall:
        """A call with these arrays, checked once; their contents may change between runs."""
        inputs = self._packer.inputs_in_order(arrays, named)
        outputs = self._packer.outputs_for(inputs, out)
        return BoundCall(self, self._packer.arguments_in_order(inputs, outputs), tuple(outputs))

    def __repr__(self) -> str:
        return f"<Kernel {self.signature.name}({', '.join(argument.name for argument in self.signature.arguments)})>"


class BoundCall:
    """A kernel with its arrays: `bound()` runs it into the same outputs every time."""

    def __init__(self, kernel: Kernel, arrays: Sequence[Array], outputs: tuple[Array, ...]) -> None:
        self._kernel = kernel
        self._arrays = arrays
        self._packed = kernel._packer.pack(arrays)
        self._entry, self._structs, self._count = kernel._entry, self._packed.structs, kernel._count
        self.outputs = outputs

    def __call__(self) -> Outputs:
        """Run; returns the output, or a tuple of outputs."""
        status = self._entry(self._structs, self._count)
        if status:
            self.raise_error(status)
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    @property
    def words(self) -> tuple[int, int, int]:
        """The call as native code makes it: the entry, its structs and their number."""
        structs = ctypes.cast(ctypes.c_char_p(self._structs), ctypes.c_void_p).value or 0
        return self._kernel.address, structs, self._count

    def raise_error(self, status: int) -> NoReturn:
        """Raise the NativeError of a status that the entry returned."""
        self._kernel._packer.raise_error(status, self._arrays)

    def __repr__(self) -> str:
        return f"<BoundCall {self._kernel.signature.name}>"


def build(fn: ir.Function, target: str | Target = "host", *, contract: bool = True, cached: bool = True) -> Kernel:
    """Compile a function, scheduled or not, and load it; options as in `compile_native`.

    `target` is "host", the machine's own CPU, or a target whose features the machine has, such as
    "x86-64-avx2".

    Raises:
        NativeError: this machine cannot run code for the target.
        TargetError, SignatureError, PassError, CodegenError: as `compile_native`.
    """
    from vdla.compiler.codegen.llvm import compile_native

    return load(compile_native(fn, target, contract=contract, cached=cached))


def load(built: NativeObject) -> Kernel:
    """Load an object that was compiled for this machine.

    Raises:
        NativeError: it is not a NativeObject, or this machine cannot run code for its target.
    """
    from vdla.compiler.codegen.llvm import NativeObject
    from vdla.compiler.target import host

    if not isinstance(built, NativeObject):
        raise NativeError(f"load: built must be a NativeObject, as of compile_native, got {type(built).__name__}")
    machine = host()
    if built.target.architecture != machine.architecture:
        rule = f"target must be of this machine's architecture, {machine.architecture}"
        name = built.target.name
        raise NativeError(f"{built.name}: {rule}, got {name} (link the object into a library for that machine)")
    missing = sorted(built.target.features - machine.features)
    if missing:
        raise NativeError(f"{built.name}: target must have only features of this machine, got {', '.join(missing)}")
    loaded = load_object(built.object, built.name)
    return Kernel(built.signature, loaded.addresses[built.name], loaded)


def set_threads(count: int) -> None:
    """Limit parallel loops to `count` threads, the calling one included, at most 256.

    0 restores the default: the environment variable VDLA_THREADS, else the number of processors.
    """
    limit = thread_limit("set_threads: count", count)
    _SET_THREADS(_pool_function("vdla_set_threads"))(limit)


def threads() -> int:
    """The limit of threads of parallel loops."""
    return int(_THREADS(_pool_function("vdla_threads"))())


def _pool_function(name: str) -> Any:  # noqa: ANN401  an address
    return thread_pool().addresses[name]
