# SPDX-License-Identifier: Apache-2.0
"""A requantised convolution on packed layouts, its accelerator schedule, and a NumPy model."""

from collections.abc import Callable

import numpy as np

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule

PAD_VALUE = 3


def convolution(n=1, ci=4, co=3, h=6, w=5, k=3, stride=1, dilation=1, padding=1, batch=1, block=2) -> ir.Function:
    data = te.placeholder((n, ci, h, w, batch, block), "int8", "data")
    weight = te.placeholder((co, ci, k, k, block, block), "int8", "weight")
    scale = te.placeholder((co, block), "int64", "scale")
    pad = te.pad(data, (0, 0, padding, padding, 0, 0), (0, 0, padding, padding, 0, 0), PAD_VALUE, "pad")
    rows, columns = ((size + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for size in (h, w))
    shape = (n, co, rows, columns, batch, block)
    axes = [te.reduce_axis(e, a) for e, a in ((ci, "ci"), (k, "ky"), (k, "kx"), (block, "i"))]
    c, ky, kx, i = axes

    def product(n, co, y, x, b, o):
        element = pad[n, c, y * stride + ky * dilation, x * stride + kx * dilation, b, i]
        return te.sum(te.cast("int32", element) * te.cast("int32", weight[co, c, ky, kx, o, i]), axis=axes)

    def requantised(n, co, y, x, b, o):
        lane = scale[co, o]
        total = te.cast("int64", acc[n, co, y, x, b, o] + te.cast("int32", lane)) * ((lane >> 32) & 0xFFFFFF)
        return te.cast("int8", te.clip((total + 4) >> 3, -128, 127))

    acc = te.compute(shape, product, "acc")
    q = te.compute(shape, requantised, "q")
    out = te.compute(shape, lambda n, co, y, x, b, o: q[n, co, y, x, b, o], "out")
    return te.create_function([data, weight, scale], [out], "conv")


def random_inputs(fn: ir.Function, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {name: rng.integers(-128, 128, fn.buffers[name].shape).astype(np.int8) for name in ("data", "weight")}
    shape = fn.buffers["scale"].shape
    return arrays | {"scale": rng.integers(0, 1 << 32, shape) % 1000 + (rng.integers(1, 4, shape) << 32)}


def model(fn: ir.Function, arrays: dict[str, np.ndarray], stride: int, dilation: int, padding: int) -> np.ndarray:
    sides = ((0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0), (0, 0))
    padded = np.pad(arrays["data"], sides, constant_values=PAD_VALUE).astype(np.int32)
    weight, scale = arrays["weight"].astype(np.int32), arrays["scale"][None, :, None, None, None, :]
    *_, rows, columns, _, _ = fn.buffers["out"].shape
    total = np.zeros(fn.buffers["out"].shape, np.int32)
    for ky in range(weight.shape[2]):
        for kx in range(weight.shape[3]):
            y, x = ky * dilation, kx * dilation
            window = padded[:, :, y : y + (rows - 1) * stride + 1 : stride, x : x + (columns - 1) * stride + 1 : stride]
            total += np.einsum("nchwbi,kcoi->nkhwbo", window, weight[:, :, ky, kx])
    scaled = (total + scale.astype(np.int32)).astype(np.int64) * ((scale >> 32) & 0xFFFFFF)
    return np.clip((scaled + 4) >> 3, -128, 127).astype(np.int8)


def schedule(fn: ir.Function, rows: int, outs: int, ins: int, check: Callable[[Schedule, str], None]) -> Schedule:
    """Schedules tiles of `rows` rows, `outs` output and `ins` input blocks, with two virtual
    threads.
    """
    s = Schedule(fn)

    def step(name, *args, **kwargs):
        result = getattr(s, name)(*args, **kwargs)
        check(s, f"{name}{args}")
        return result

    n, co, y, x, b, o, ci, ky, kx, i = s.loops("acc")
    for buffer, scope in (("pad", "inp"), ("acc", "acc"), ("q", "out")):
        step("set_scope", buffer, scope)
    cog, co = step("split", co, factor=outs, names=("cog", "co"))
    yo, y = step("split", y, factor=rows, names=("yo", "y"))
    cic, ci = step("split", ci, factor=ins, names=("cic", "ci"))
    cico, vt = step("split", cic, factor=2, names=("cico", "vt"))
    step("reorder", n, cog, yo, cico, vt, co, y, x, ci, ky, kx, b, o, i)
    step("vthread", vt)
    step("compute_at", "pad", vt)
    weights = step("cache_read", "acc", "weight", "wgt")
    step("compute_at", weights, co)
    step("compute_once", weights, yo)
    step("reverse_compute_at", "q", x)
    scales = step("cache_read", "q", "scale", "scl")
    step("compute_at", scales, cog)
    step("reverse_compute_at", "out", co)
    step("blockize", b)
    return s


def same_result(arrays: dict[str, np.ndarray], expected: np.ndarray) -> Callable[[Schedule, str], None]:
    def check(s: Schedule, step: str) -> None:
        np.testing.assert_array_equal(interpret(s.fn, arrays)["out"], expected, err_msg=f"{step}\n{s.fn}")

    return check
