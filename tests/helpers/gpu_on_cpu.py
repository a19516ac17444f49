# SPDX-License-Identifier: Apache-2.0
"""Runs the LLVM module behind a PTX text on this CPU, with a thread for each thread of a block.

Only what a CPU lacks is replaced: the numbers of threads become arguments of the kernel; barriers
and shuffles become calls of Python, where the threads of the block meet. Blocks run one by one.
"""

from __future__ import annotations

import ctypes
import re
import threading
from itertools import product
from typing import Any

import numpy as np
from llvmlite import binding

from helpers import tensor_cores_on_cpu as tensor_cores
from vdla.compiler import ir
from vdla.compiler.abi import Launch, evaluate_extent
from vdla.compiler.codegen.ptx import PtxSource, emit_ptx
from vdla.compiler.ir import storage_dtype
from vdla.compiler.target import GridLimits

WARP = 32
_NUMBERS = tuple(f"{register}.{axis}" for register in ("ctaid", "tid") for axis in "xyz")
_TIMEOUT_S = 60
_WORD = (1 << 32) - 1


def run_on_cpu(
    fn: ir.Function, limits: GridLimits, inputs: dict[str, np.ndarray], *, contract: bool = False
) -> dict[str, np.ndarray]:
    """The outputs of the kernels of a function, by name."""
    source = emit_ptx(fn, limits, contract=contract)
    scalars = {}
    for name in source.signature.scalars:
        position, dimension = source.signature.source(name)
        scalars[name] = inputs[source.signature.arguments[position].name].shape[dimension]
    arrays = dict(inputs)
    for argument in (*source.signature.outputs, *source.temporaries):
        shape = [evaluate_extent(extent, scalars) for extent in argument.shape]
        arrays[argument.name] = np.zeros(shape, storage_dtype(argument.dtype))
    program = _Program(source)
    for launch in source.launches:
        program.run(launch, arrays, scalars)
    return {argument.name: arrays[argument.name] for argument in source.signature.outputs}


class _Program:
    """The kernels of a source, loaded."""

    def __init__(self, source: PtxSource) -> None:
        self.meeting = _Meeting()
        for name, callback in self.meeting.callbacks.items():
            binding.add_symbol(name, ctypes.cast(callback, ctypes.c_void_p).value)
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        module = binding.parse_assembly(_for_cpu(source.llvm))
        module.verify()
        features = binding.get_host_cpu_features().flatten()
        machine = binding.Target.from_default_triple().create_target_machine(
            cpu=binding.get_host_cpu_name(), features=features, opt=1
        )
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()

    def run(self, launch: Launch, arrays: dict[str, np.ndarray], scalars: dict[str, int]) -> None:
        """All blocks of a launch, one after another."""
        pointers = [arrays[name].ctypes.data for name in launch.buffers]
        assert all(pointer % 16 == 0 for pointer in pointers)
        types = [*[ctypes.c_void_p] * len(pointers), *[ctypes.c_int32] * (len(launch.scalars) + len(_NUMBERS))]
        kernel = ctypes.CFUNCTYPE(None, *types)(self.engine.get_function_address(launch.kernel))
        arguments = [*pointers, *(scalars[name] for name in launch.scalars)]
        groups = [evaluate_extent(extent, scalars) for extent in launch.groups]
        blocks = list(product(*(range(extent) for extent in groups)))
        self.meeting.begin(launch.threads)

        def thread(own: tuple[int, int, int]) -> None:
            for block in blocks:
                kernel(*arguments, *block, *own)
                self.meeting.block.wait(_TIMEOUT_S)  # the next block overwrites the shared arrays

        numbers = product(*(range(extent) for extent in launch.threads))
        threads = [threading.Thread(target=thread, args=(own,)) for own in numbers]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


class _Meeting:
    """Where the threads of a block wait for each other."""

    def __init__(self) -> None:
        integer = ctypes.c_int32
        self.callbacks = {
            "test_barrier": ctypes.CFUNCTYPE(None)(self.barrier),
            "test_warp": ctypes.CFUNCTYPE(None, *[integer] * 3)(self.of_warp),
            "test_shuffle": ctypes.CFUNCTYPE(integer, *[integer] * 5)(self.shuffle),
            "test_ldmatrix": tensor_cores.CALLBACK(self.load_matrices),
            "test_mma": tensor_cores.CALLBACK(self.multiply),
        }

    def begin(self, threads: tuple[int, ...]) -> None:
        """Begin a launch of blocks of so many threads."""
        self.threads = threads
        count = int(np.prod(threads))
        self.block = threading.Barrier(count)
        self.warps = [threading.Barrier(min(WARP, count - first)) for first in range(0, count, WARP)]
        self.held = [0] * count

    def number(self, x: int, y: int, z: int) -> int:
        return x + self.threads[0] * (y + self.threads[1] * z)

    def barrier(self) -> None:
        self.block.wait(_TIMEOUT_S)

    def of_warp(self, x: int, y: int, z: int) -> None:
        self.warps[self.number(x, y, z) // WARP].wait(_TIMEOUT_S)

    def shuffle(self, value: int, distance: int, x: int, y: int, z: int) -> int:
        """The value of the lane `distance` further, or the own one beyond the warp."""
        lane = self.number(x, y, z) % WARP
        held = self.together(value, x, y, z)
        return held[lane + distance] if lane + distance < WARP else value

    def together(self, value: Any, x: int, y: int, z: int) -> list[Any]:
        """The values of all lanes of a warp."""
        own = self.number(x, y, z)
        self.held[own] = value
        first, warp = own // WARP * WARP, self.warps[own // WARP]
        warp.wait(_TIMEOUT_S)
        found = self.held[first : first + WARP]
        warp.wait(_TIMEOUT_S)
        return found

    def load_matrices(self, row: int, result: int, count: int, transposed: int, x: int, y: int, z: int) -> None:
        rows = self.together(row, x, y, z)
        found = tensor_cores.matrices(rows, self.number(x, y, z) % WARP, count, transposed)
        tensor_cores.memory(result, count, np.uint32)[:] = found

    def multiply(self, operands: int, result: int, form: int, _: int, x: int, y: int, z: int) -> None:
        registers = self.together(tensor_cores.memory(operands, 10, np.uint32).copy(), x, y, z)
        found = tensor_cores.products(registers, self.number(x, y, z) % WARP, form)
        tensor_cores.memory(result, 4, np.uint32)[:] = found.view(np.uint32)


def _for_cpu(text: str) -> str:
    """A module for a GPU as one for this CPU."""
    own = ", ".join(f'i32 %"tid.{axis}"' for axis in "xyz")
    numbers = ", ".join(f'i32 %"{number}"' for number in _NUMBERS)
    text = re.sub(r"^declare .*llvm\.nvvm\..*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^define ptx_kernel (.*)\)( .*)?$", rf"define \1, {numbers})", text, flags=re.MULTILINE)
    text = re.sub(r' "(?:target-cpu|target-features|prefer-vector-width|nvvm\.\w+)"="[^"]*"', "", text)
    text = re.sub(r" addrspace\([13]\)", "", text).replace("addrspacecast", "bitcast")
    text = re.sub(r'call i32 @"llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)"\(\)', r'add i32 %"\1", 0', text)
    text = re.sub(r'@"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all"\(i32 0\)', '@"test_barrier"()', text)
    text = re.sub(r'@"llvm\.nvvm\.bar\.warp\.sync"\(i32 -1\)', f'@"test_warp"({own})', text)
    text = re.sub(r'@"llvm\.nvvm\.shfl\.sync\.down\.i32"\(i32 -1, (.*), i32 31\)', rf'@"test_shuffle"(\1, {own})', text)
    text = re.sub(
        r"^target triple = .*$", f'target triple = "{binding.get_default_triple()}"', text, flags=re.MULTILINE
    )
    text = tensor_cores.replaced(text, own)
    assert "llvm.nvvm" not in text
    words = ", ".join(["i32"] * 3)
    return f'{text}\ndeclare void @"test_barrier"()\ndeclare void @"test_warp"({words})\n' + (
        f'declare i32 @"test_shuffle"(i32, i32, {words})\n'
    )
