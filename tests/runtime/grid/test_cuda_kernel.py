# SPDX-License-Identifier: Apache-2.0
"""Kernels on a CUDA driver without a device, from calls with arrays to parameters of launches."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from helpers.stub_cuda import StubCuda
from helpers.warp_product import small_integers, warp_product

import vdla
from vdla.compiler import ir, te
from vdla.compiler.codegen.ptx import PtxSource, emit_ptx
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.gpu import grid_schedule
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.runtime.grid import cuda_devices as devices
from vdla.runtime.grid.cuda_devices import build_cuda, open_cuda
from vdla.runtime.grid.cuda_driver import CudaDeviceError, CudaDriver, DeviceAttribute
from vdla.runtime.grid.cuda_module import CudaModule
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.native import NativeError
from vdla.verification.grid.cooperative import row_sums, tiled_product

X = np.arange(15, dtype=np.int32).reshape(3, 5) ** 2
OUT_OF_MEMORY = 2


def centred(rows: te.Expr | int = 3) -> ir.Function:
    """Two kernels with an array between them."""
    x = te.placeholder((rows, 5), "int32", "x")
    k = te.reduce_axis(5, "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "total")
    return te.create_function([x], [te.compute((rows, 5), lambda i, j: x[i, j] * 7 - total[i], "y")], "centred")


def two_kernels() -> ir.Function:
    """`centred`, a thread for each sum, then one for each element."""
    s = Schedule(centred())
    s.bind(s.loops("total")[0], "threadIdx.x")
    s.bind(s.fuse(*s.loops("y")[:2]), "threadIdx.x")
    return s.fn


def compiled(stub: StubCuda, fn: ir.Function) -> DeviceKernel:
    """The kernel of a scheduled function, run by the interpreter."""
    limits = open_cuda().limits
    stub.interpret(fn, limits=limits)
    return vdla.compile(fn, "cuda")


def wanted(x: np.ndarray) -> np.ndarray:
    return x * 7 - x.sum(axis=1, keepdims=True)


def test_a_function_runs_from_arrays_to_arrays(stub_cuda: StubCuda) -> None:
    kernel = compiled(stub_cuda, two_kernels())
    np.testing.assert_array_equal(kernel(X), wanted(X))
    assert ".target sm_86" in kernel.source.text
    assert kernel.seconds == pytest.approx(2e-3)  # a millisecond for each kernel of the stub
    assert repr(kernel) == "<DeviceKernel centred(x, y) on Stub GPU 0>"


def test_a_function_without_bound_loops_gets_the_default_schedule(stub_cuda: StubCuda) -> None:
    stub_cuda.interpret(grid_schedule(centred(), open_cuda().limits).fn, limits=open_cuda().limits)
    np.testing.assert_array_equal(vdla.compile(centred(), "cuda:gpu 0")(X), wanted(X))


def test_symbolic_extents_are_parameters(stub_cuda: StubCuda) -> None:
    kernel = compiled(stub_cuda, grid_schedule(centred(te.var("n")), open_cuda().limits, threads=4).fn)
    for rows in (1, 3):
        np.testing.assert_array_equal(kernel(X[:rows]), wanted(X[:rows]))


@pytest.mark.parametrize("factory", [partial(row_sums, 3, 16, 4, tree=True), partial(tiled_product, 8, 4, 2, 2)])
def test_threads_cooperate(factory: Callable[[], Schedule], stub_cuda: StubCuda) -> None:
    s = factory()
    random, (output,) = np.random.default_rng(0), ir.output_names(s.fn)
    inputs = {
        name: random.integers(-99, 99, s.fn.buffers[name].dims, dtype=np.int32)
        for name in s.fn.params
        if name != output
    }
    np.testing.assert_array_equal(compiled(stub_cuda, s.fn)(**inputs), interpret(s.fn, inputs)[output])


def test_elements_of_two_bytes(stub_cuda: StubCuda) -> None:
    arrays, result = small_integers("bfloat16")
    fn = warp_product("bfloat16")
    np.testing.assert_array_equal(compiled(stub_cuda, getattr(fn, "fn", fn))(**arrays), result)


def test_the_calls_of_a_call(stub_cuda: StubCuda) -> None:
    kernel = build_cuda(two_kernels())
    before = len(stub_cuda.log)
    kernel(X)
    gc.collect()
    assert (
        stub_cuda.log[before:]
        == [
            "cuMemAlloc 60",  # x
            "cuMemHostAlloc 60",
            "cuMemcpyHtoDAsync 60",
            "cuEventCreate 0",
            "cuEventRecord",
            "cuMemAlloc 60",  # y
            "cuMemAlloc 12",  # total
            "cuEventCreate 0",
            "cuEventRecord",
            "cuLaunchKernel 1 1 1 3 1 1 0",
            "cuLaunchKernel 1 1 1 15 1 1 0",
            "cuEventCreate 0",
            "cuEventRecord",
            "cuMemcpyDtoHAsync 60",
            "cuStreamSynchronize",
            "cuEventSynchronize",
            "cuEventSynchronize",
            "cuEventElapsedTime",
            *[line for line in stub_cuda.log[before:] if line in ("cuEventDestroy", "cuMemFree")],
        ]
    )
    assert stub_cuda.log[before:].count("cuMemFree") == 3
    assert stub_cuda.log[before:].count("cuEventDestroy") == 2  # the third goes with its staging buffer


def message_of(call: Callable[[np.ndarray], object], array: np.ndarray) -> str:
    """The message of what a call raises, of which nothing is kept."""
    try:
        call(array)
    except CudaDeviceError as error:
        return str(error)
    return ""


def use_and_drop(source: PtxSource) -> str:
    """Everything once; the message of what failed."""
    try:
        device = open_cuda()
        kernel, stream = DeviceKernel(source, device), device.stream()
        kernel(X)
        x, y = stream.upload(X), device.empty(X.shape, "int32")
        kernel.enqueue(stream, x, y)
        device.default_stream.wait(stream.record())
        device.default_stream.download(y)
        stream.upload(X[:1], x.view(0, (1, 5), "int32"))
    except CudaDeviceError as error:
        return str(error)
    finally:
        devices.opened.cache_clear()
    return ""


def test_nothing_is_left_whichever_call_fails(stub_cuda: StubCuda) -> None:
    """Objects go with their last reference, without the garbage collector."""
    source = emit_ptx(two_kernels(), GridLimits("any"), "sm_80")
    assert use_and_drop(source) == ""
    assert not stub_cuda.live
    for call in range(1, stub_cuda.calls + 1):
        stub_cuda.reset()
        stub_cuda.fail(call, OUT_OF_MEMORY)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ResourceWarning)
            said = use_and_drop(source)
        name, releases = stub_cuda.call(call).split()[0], not said
        said = said or str(warned[0].message)
        assert said.endswith(f"got CUDA_ERROR_OUT_OF_MEMORY (out of memory) from {name}")
        if not releases or name not in ("cuCtxPushCurrent", "cuDevicePrimaryCtxRelease"):  # then it cannot be done
            assert not stub_cuda.live, (call, said)


def test_a_kernel_that_fails_is_an_error_of_what_waits_for_it(stub_cuda: StubCuda) -> None:
    kernel = build_cuda(two_kernels())
    stub_cuda.run(lambda name, dims, values: 1 // 0)
    rule = "cuda: Stub GPU 0 must finish its work"
    with pytest.warns(ResourceWarning, match="must be released, got CUDA_ERROR_LAUNCH_FAILED"):
        said = message_of(kernel, X)
        del kernel
        devices.opened.cache_clear()
    reason = "got CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure) from cuStreamSynchronize"
    assert said == f"{rule}, {reason}"
    assert stub_cuda.error.startswith("ZeroDivisionError")


def test_a_kernel_may_be_dropped_while_it_runs(stub_cuda: StubCuda) -> None:
    kernel, device = compiled(stub_cuda, two_kernels()), open_cuda()
    stream, y = device.stream(), device.empty(X.shape, "int32")
    kernel.enqueue(stream, stream.upload(X), y)
    del kernel
    assert not stub_cuda.live["module"]
    np.testing.assert_array_equal(stream.download(y), wanted(X))


def test_memory_that_the_device_does_not_have(stub_cuda: StubCuda) -> None:
    kernel = build_cuda(two_kernels())
    stub_cuda.set_memory(100)
    message = "cuda: Stub GPU 0 must have 60 bytes, got CUDA_ERROR_OUT_OF_MEMORY (out of memory) from cuMemAlloc"
    with pytest.raises(CudaDeviceError) as caught:
        kernel(X)
    assert str(caught.value) == message


def test_arguments_that_a_kernel_refuses(stub_cuda: StubCuda) -> None:
    with pytest.raises(NativeError, match=r"^centred: x must have the dtype int32, got float64$"):
        vdla.compile(centred(), "cuda")(X.astype(float))


def shared(kilobytes: int) -> ir.Function:
    """A copy through that much shared memory."""
    x = te.placeholder((kilobytes * 256,), "float32", "x")
    s = Schedule(te.create_function([x], [te.compute(x.shape, lambda i: x[i] + 1.0, "y")], "copy"))
    group, rest = s.split("i", factor=kilobytes * 256)
    s.bind(group, "blockIdx.x")
    s.compute_at(s.cache_read("y", "x", "shared"), group)
    s.bind(s.split(rest, factor=1)[1], "threadIdx.x")
    return s.fn


def test_more_shared_memory_than_a_kernel_may_declare(stub_cuda: StubCuda) -> None:
    kernel = build_cuda(shared(64))
    (launch,) = kernel.source.launches
    assert launch.shared_bytes == 64 * 1024
    assert f"cuFuncSetAttribute 8 {64 * 1024}" in stub_cuda.log
    kernel(np.zeros(64 * 256, np.float32))
    assert f"cuLaunchKernel 1 1 1 1 1 1 {64 * 1024}" in stub_cuda.log


@pytest.mark.parametrize(("fn", "message"), [
    (shared(100), "copy: a block must have at most 101376 bytes of shared memory on Stub GPU 0, got 102400"),
])  # fmt: skip
def test_more_shared_memory_than_the_device_has(fn: ir.Function, message: str, stub_cuda: StubCuda) -> None:
    with pytest.raises(vdla.Error) as caught:
        vdla.compile(fn, "cuda")
    assert str(caught.value).startswith(message)


def wide(axis: str, count: int) -> Schedule:
    """A function of `count` threads or blocks along an axis."""
    x = te.placeholder((count,), "int8", "x")
    s = Schedule(te.create_function([x], [te.compute((count,), lambda i: x[i], "y")], "wide"))
    s.bind("i", axis)
    return s


@pytest.mark.parametrize(("axis", "count", "message"), [
    ("threadIdx.x", 1025, "wide: a block must have at most 1024 threads on Stub GPU 0, got 1025 (1025 x 1 x 1)"),
    ("threadIdx.z", 65, "wide_kernel: a block must have at most 64 threads along z on Stub GPU 0, got 65"),
    ("blockIdx.y", 65536, "wide_kernel: a grid must have at most 65535 groups along y on Stub GPU 0, got 65536"),
])  # fmt: skip
def test_more_threads_or_groups_than_the_device_has(axis: str, count: int, message: str, stub_cuda: StubCuda) -> None:
    with pytest.raises(vdla.Error) as caught:
        vdla.compile(wide(axis, count), "cuda")(np.zeros(count, np.int8))
    assert str(caught.value) == message


def test_more_threads_than_their_registers_allow(stub_cuda: StubCuda) -> None:
    stub_cuda.set_attribute(0, 512)
    limit = "a block must have at most 512 threads on Stub GPU 0 with the registers of each"
    with pytest.raises(CudaDeviceError) as caught:
        vdla.compile(wide("threadIdx.x", 1000), "cuda")
    assert str(caught.value) == f"wide_kernel: {limit}, got 1000"


def test_a_text_that_the_driver_refuses(stub_cuda: StubCuda) -> None:
    with pytest.raises(CudaDeviceError) as caught:
        CudaModule(open_cuda().context, "nothing")
    rule = "cuda: Stub GPU 0 must load the module"
    reason = "got CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed) from cuModuleLoadDataEx"
    assert str(caught.value) == f"{rule}, {reason}: ptxas error   : Missing .version directive"


@pytest.mark.parametrize(("capability", "arch"), [((8, 0), "sm_80"), ((8, 7), "sm_86"), ((12, 1), "sm_120")])
def test_the_newest_code_that_a_device_runs(capability: tuple[int, int], arch: str, stub_cuda: StubCuda) -> None:
    stub_cuda.set_attribute(DeviceAttribute.COMPUTE_CAPABILITY_MAJOR, capability[0])
    stub_cuda.set_attribute(DeviceAttribute.COMPUTE_CAPABILITY_MINOR, capability[1])
    assert open_cuda().arch == arch


def test_a_device_older_than_all_code(stub_cuda: StubCuda) -> None:
    stub_cuda.set_attribute(DeviceAttribute.COMPUTE_CAPABILITY_MAJOR, 6)
    with pytest.raises(CudaDeviceError) as caught:
        vdla.compile(centred(), "cuda")
    assert str(caught.value) == "cuda: a device must be sm_70 or newer, got Stub GPU 0, which is sm_66"


def test_an_unknown_device(stub_cuda: StubCuda) -> None:
    stub_cuda.set_devices(2)
    with pytest.raises(CudaDeviceError) as caught:
        vdla.compile(centred(), "cuda:abacus")
    assert str(caught.value) == "cuda: the device must be one of Stub GPU 0; Stub GPU 1, got 'abacus'"


def test_no_device(stub_cuda: StubCuda) -> None:
    stub_cuda.set_devices(0)
    with pytest.raises(CudaDeviceError, match=r"^cuda: the machine must have a device, got none$"):
        open_cuda()


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CudaDeviceError) as caught:
        CudaDriver("libnothing.so.1")
    assert str(caught.value) == "cuda: NVIDIA's driver must be installed, got no libnothing.so.1"
