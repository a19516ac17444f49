# SPDX-License-Identifier: Apache-2.0
"""Kernels loaded without LLVM: the same results, and exact refusals of objects that are wrong."""

import gc
import os
import platform
import re
import resource
import struct
import time

import numpy as np
import pytest

from vdla import operators, te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.executor.bind_kernels import POOL
from vdla.runtime.native import Kernel, NativeError, build
from vdla.runtime.native.elf_loader import ElfLoader, machine_of_process
from vdla.runtime.native.elf_object import ElfObject

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="relocations of x86-64")


def scheduled(extent=300, name="product"):
    """A product large enough for parallel loops and heap temporaries, then a function of libm."""
    a, b = te.placeholder((extent, 64), "float32", "a"), te.placeholder((64, 96), "float32", "b")
    result = operators.tanh(operators.matmul(a, b), name="y")
    return default_schedule(te.create_function([a, b], [result], name)).fn


def loaded_kernel(fn, loader=None):
    made = compile_native(fn)
    loaded = (loader or ElfLoader(POOL)).load(made.object, made.name)
    return Kernel(made.signature, loaded.addresses[made.name], loaded)


def test_a_kernel_gives_the_same_bits():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(300, 64)).astype(np.float32), rng.normal(size=(64, 96)).astype(np.float32)
    fn = scheduled()
    assert np.array_equal(loaded_kernel(fn)(a, b), build(fn)(a, b))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
@pytest.mark.skipif(any("MALLOC" in name.upper() for name in os.environ), reason="the environment sets options")
def test_temporaries_of_a_call_stay_for_the_next():
    x = te.placeholder((1 << 20,), "float32", "x")
    parts = [te.compute(x.shape, lambda i, n=n: x[i] + n, f"part{n}") for n in range(4)]
    total = te.compute(x.shape, lambda i: sum((part[(1 << 20) - 1 - i] for part in parts), te.const(0, "float32")), "y")
    kernel = loaded_kernel(te.create_function([x], [total], "sums"))
    call = kernel.bind(np.ones(x.shape, np.float32))
    for _ in range(3):
        call()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(4):
        call()
    pages = (4 << 22) // resource.getpagesize()  # of the temporaries of one call
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < pages // 2


def test_two_objects_share_one_pool():
    loader = ElfLoader(POOL)
    kernels = [loaded_kernel(scheduled(name=name), loader) for name in ("one", "two")]
    a, b = np.ones((300, 64), np.float32), np.ones((64, 96), np.float32)
    assert np.array_equal(kernels[0](a, b), kernels[1](a, b))
    assert set(loader.definitions) == set(POOL)


def test_threads_outlive_their_loader():
    a, b = np.ones((300, 64), np.float32), np.ones((64, 96), np.float32)
    for _ in range(3):
        loaded_kernel(scheduled())(a, b)
        gc.collect()
    time.sleep(0.05)  # threads whose code were gone would end the process here


CONTENT = compile_native(scheduled(), "host").object if platform.machine() == "x86_64" else b""


SECTIONS = struct.unpack_from("<H", CONTENT, 60)[0] if CONTENT else 0


def changed(offset: int, value: bytes) -> bytes:
    return CONTENT[:offset] + value + CONTENT[offset + len(value) :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "k: object must be a little-endian ELF file, got b''"),
        (b"\x7fELF\x02\x02\x01", "k: object must be a little-endian ELF file, got b'\\x7fELF\\x02\\x02\\x01'"),
        (CONTENT[:60], "k: header must lie in the object's 60 bytes, got 0"),
        (changed(16, b"\x03\0"), "k: object must be relocatable, got type 3"),
        (changed(18, b"\x28\0"), "k: object must be for x86_64, the machine of this process, got arm"),
        (changed(18, b"\x08\0"), "k: object must be for x86_64, the machine of this process, got ELF machine 8"),
        (changed(62, b"\xff\x7f"), f"k: names must be one of {SECTIONS} sections, got 32767"),
    ],
)  # fmt: skip
def test_wrong_objects(content, message):
    with pytest.raises(NativeError, match=f"^{re.escape(message)}$"):
        ElfLoader().load(content, "k")


def test_damaged_objects_are_refused_or_parsed():
    rng = np.random.default_rng(0)
    for _ in range(300):
        content = bytearray(CONTENT)
        for at in rng.integers(0, len(content), 8):
            content[at] ^= 1 << rng.integers(8)
        try:
            ElfObject.parse(bytes(content), "k")
        except NativeError:
            continue


@pytest.mark.parametrize(
    ("kernel", "pointer_bytes", "machine"),
    [("armv7l", 4, "arm"), ("armv8l", 4, "arm"), ("aarch64", 4, "arm"), ("aarch64", 8, "aarch64")],
)
def test_the_machine_of_a_process_is_that_of_its_pointers(kernel, pointer_bytes, machine):
    assert machine_of_process(kernel, pointer_bytes) == machine
