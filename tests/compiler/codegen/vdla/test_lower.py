# SPDX-License-Identifier: Apache-2.0
"""Lowering of scheduled nests to macro-ops: instructions, and equal results for every tiling."""

import re

import numpy as np
import pytest

from vdla.compiler import lowering as passes
from vdla.compiler import te
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.tiles import LoweringError, LoweringWarning
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.vdla.tiling import fits
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS
from vdla.compiler.templates.conv2d import conv2d
from vdla.compiler.templates.products import dense
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify

CONFIG = Config.preset("tiny")
B, I, O = CONFIG.batch, CONFIG.block_in, CONFIG.block_out  # noqa: E741


def product(rows: int = 6, ins: int = 4, outs: int = 2) -> Schedule:
    """out[n, m] = sum over k of a[k, m] . b[n, k], requantised; on-chip, not yet scheduled."""
    a = te.placeholder((ins, rows, B, I), CONFIG.inp_dtype, "a")
    b = te.placeholder((outs, ins, O, I), CONFIG.wgt_dtype, "b")
    lanes = te.placeholder((outs, O), "int64", "lanes")
    k, i = te.reduce_axis(ins, "k"), te.reduce_axis(I, "i")
    sums = te.compute(
        (outs, rows, B, O),
        lambda n, m, r, o: te.sum(te.cast("int32", a[k, m, r, i]) * te.cast("int32", b[n, k, o, i]), axis=[k, i]),
        "sums",
    )
    results = te.compute(
        sums.shape,
        lambda *i: requantise.requantisation(sums[i], lanes[i[0], i[3]], 0, -128, 127, CONFIG.out_dtype),
        "results",
    )
    out = te.compute(sums.shape, lambda *i: results[i], "out")
    s = Schedule(te.create_function([a, b, lanes], [out], "product"))
    s.set_scope("sums", "acc")
    s.set_scope("results", "out")
    return s


def placed(s: Schedule) -> dict[str, str]:
    """The on-chip copies, by the buffer that they copy."""
    return {"a": s.cache_read("sums", "a", "inp"), "b": s.cache_read("sums", "b", "wgt")}


def ordered(**sizes: int) -> tuple[Schedule, dict[str, str]]:
    """A product with the loops of an entry innermost, and its copies."""
    s = product(**sizes)
    copies = placed(s)
    s.reorder("n", "m", "k", "r", "o", "i")
    return s, copies


def tensorized(s: Schedule, copies: dict[str, str]) -> Schedule:
    intrinsics = {
        copies["a"]: (2, dma.load(CONFIG, Buffer.INP)),
        copies["b"]: (2, dma.load(CONFIG, Buffer.WGT)),
        copies.get("lanes") or s.cache_read("results", "lanes", "scl"): (1, dma.load(CONFIG, Buffer.SCL)),
        "sums": (3, gemm.gemm(CONFIG)),
        "results": (2, requantise.requantise(CONFIG)),
        "out": (2, dma.store(CONFIG)),
    }
    for block, (depth, intrinsic) in intrinsics.items():
        s.tensorize(s.loops(block)[-depth], intrinsic)
    return s


def arrays(s: Schedule, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {name: s.fn.buffers[name].shape for name in ("a", "b", "lanes")}
    lanes = (rng.integers(0, 50, shapes["lanes"]) + (3 << 32) + (5 << 56)).astype(np.int64)
    return {n: rng.integers(-128, 128, shapes[n]).astype(np.int8) for n in ("a", "b")} | {"lanes": lanes}


def agree(s: Schedule) -> None:
    program = compile_function(CONFIG, s.fn)
    verify(program).raise_if_bad()
    given = arrays(s)
    np.testing.assert_array_equal(simulate(program, given).outputs["out"], interpret(s.fn, given)["out"])


def kinds(s: Schedule) -> list[str]:
    return [type(op.instruction).__name__ for op in lower(CONFIG, s.fn)]


def fused(threads: int = 1, chunk: int = 2) -> Schedule:
    """Chunks of k outermost; the pass of the last chunk requantises the results."""
    s = product()
    copies = placed(s)
    n, m, r, o, k, i = s.loops("sums")
    ko, ki = s.split(k, factor=chunk)
    outer = list(s.split(ko, factor=threads)) if threads > 1 else [ko]
    s.reorder(*outer, n, m, ki, r, o, i)
    if threads > 1:
        s.vthread(outer[1])
    s.compute_at(copies["a"], outer[-1])
    s.compute_at(copies["b"], n)
    s.store_at(copies["b"], outer[-1])
    s.reverse_compute_at("results", m)
    s.reverse_compute_at("out", n)
    return tensorized(s, copies)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "b"}, "compile_function: weights must be a sequence of names, got 'b'"),
        ({"weights": ("out",)}, "compile_function: weights of product must be of a, b, lanes, got 'out'"),
        ({"layouts": ["a"]}, "compile_function: layouts must be a mapping of names, got ['a']"),
    ],
)
def test_weights_are_inputs_and_layouts_have_names(arguments, message):
    with pytest.raises(LoweringError) as error:
        compile_function(CONFIG, fused().fn, **arguments)
    assert str(error.value) == message


def test_a_function_lowered_for_cpus_is_refused():
    a = te.placeholder((4,), "int8", "a")
    fn = te.create_function([a], [te.compute((4,), lambda i: a[i], "c")], "f")
    with pytest.raises(LoweringError) as error:
        compile_function(CONFIG, passes.lower(fn, TARGETS["x86-64"]))
    rule = "every store must lie in a tensorized block, as before the passes for CPUs"
    assert str(error.value) == f"f: {rule}, got one to c outside of all blocks"


def test_unfused_stages_need_a_pass_for_the_results():
    s, copies = ordered()
    tensorized(s, copies)
    assert kinds(s) == ["Load", "Load", "Gemm", "Load", "Vector", "Store"]
    agree(s)


def test_results_are_emitted_in_the_pass_that_completes_their_sums():
    s = fused()
    ops = [op.instruction for op in lower(CONFIG, s.fn)]
    gemms = [op for op in ops if isinstance(op, isa.Gemm)]
    assert [(g.init, g.emit) for g in gemms] == [(1, isa.Emit.NONE)] * 2 + [(0, isa.Emit.REQUANT)] * 2
    assert not any(isinstance(op, isa.Vector) for op in ops)
    agree(s)


def test_each_virtual_thread_has_its_own_tiles():
    ops = lower(CONFIG, fused(threads=2, chunk=1).fn)
    inputs = [op.bases["sram"][0] for op in ops if getattr(op.instruction, "buffer", None) == Buffer.INP]
    assert [tile.ident for tile in inputs] == [0, 1, 0, 1]
    agree(fused(threads=2, chunk=1))


def test_an_iteration_without_a_chunk_does_not_lose_results():
    s = fused(threads=3, chunk=1)  # four chunks for three threads
    assert kinds(s).count("Vector") == 2
    agree(s)


def test_reductions_are_micro_ops_and_rows_are_the_loop():
    gemms = [op for op in lower(CONFIG, fused().fn) if isinstance(op.instruction, isa.Gemm)]
    assert [(u.first, u.last) for u in gemms[0].uops] == [(1, 0), (0, 1)]
    assert (gemms[0].instruction.loop0, gemms[0].instruction.acc0, gemms[0].instruction.src0) == (6, 1, 1)


ROW_TILES = Tiling(rows=2, cols=8, out_blocks=1, in_blocks=1, keep_weights=False, threads=1, threads_over="rows")


def test_padding_becomes_fields_of_the_load():
    op = conv2d(
        CONFIG, batch=1, height=6, width=6, in_channels=I, out_channels=O, kernel=3, pads=2, packing="channels",
        tiling=ROW_TILES,
    )  # fmt: skip
    loads = [i.instruction for i in lower(CONFIG, op.function) if getattr(i.instruction, "buffer", None) == Buffer.INP]
    assert [(v.y_before, v.y_size, v.y_after) for v in loads] == [(2, 2, 0), (0, 4, 0), (0, 4, 0), (0, 2, 2)]
    assert {(v.x_before, v.x_size, v.x_after) for v in loads} == {(2, 6, 2)}


def test_a_window_that_is_all_padding_reads_nothing():
    op = conv2d(
        CONFIG, batch=1, height=4, width=4, in_channels=I, out_channels=O, kernel=1, pads=2, packing="channels",
        tiling=ROW_TILES, input_zero_point=3,
    )  # fmt: skip
    loads = [i for i in lower(CONFIG, op.function) if getattr(i.instruction, "buffer", None) == Buffer.INP]
    fills = [i.instruction for i in loads if i.tensor is None]
    assert [(v.y_before + v.y_after, v.y_size, v.pad_value) for v in fills] == [(2, 0, 3), (2, 0, 3)]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(24))
def test_every_tiling_computes_the_convolution(seed):
    rng = np.random.default_rng(seed)
    config = Config.preset(("tiny", "batch4", "int4")[seed % 3])
    pick = lambda *choices: int(rng.choice(choices))  # noqa: E731
    kernel = pick(1, 2, 3)
    shape = {
        "batch": pick(1, 3), "height": pick(5, 6, 9), "width": pick(5, 7), "kernel": kernel, "strides": pick(1, 2),
        "pads": pick(0, 1), "dilations": pick(1, 2), "in_channels": pick(3, config.block_in * 2 + 1),
        "out_channels": pick(2, config.block_out * 3),
    }  # fmt: skip
    problem_of = conv2d(config, **shape, packing="channels", raw=True)
    tiling = random_tiling(rng, config, shape)
    if tiling is None:
        return
    op = conv2d(config, **shape, packing="channels", raw=True, tiling=tiling)
    low, high = -(1 << (config.inp_bits - 1)), 1 << (config.inp_bits - 1)
    data = rng.integers(low, high, (shape["batch"], shape["in_channels"], shape["height"], shape["width"]))
    low, high = -(1 << (config.wgt_bits - 1)), 1 << (config.wgt_bits - 1)
    weight = rng.integers(low, high, (shape["out_channels"], shape["in_channels"], kernel, kernel))
    verify(op.program).raise_if_bad()
    found = op.unpack(simulate(op.program, op.pack(data, weight)).outputs)
    chosen = problem_of.unpack(simulate(problem_of.program, problem_of.pack(data, weight)).outputs)
    meant = op.unpack(interpret(op.function, op.pack(data, weight)))
    np.testing.assert_array_equal(found, meant, err_msg=f"seed {seed}: {shape} {tiling}")
    np.testing.assert_array_equal(found, chosen, err_msg=f"seed {seed}: {shape} {tiling}")


def random_tiling(rng: np.random.Generator, config: Config, shape: dict[str, int]) -> Tiling | None:
    """A random tiling that fits, or None after a hundred tries."""
    kernel, stride, span = shape["kernel"], shape["strides"], (shape["kernel"] - 1) * shape["dilations"] + 1
    rows, cols = ((shape[side] + 2 * shape["pads"] - span) // stride + 1 for side in ("height", "width"))
    outs, ins = -(-shape["out_channels"] // config.block_out), -(-shape["in_channels"] // config.block_in)
    batches = -(-shape["batch"] // config.batch)
    taps = kernel * kernel
    problem = TilingProblem(
        batches=batches,
        out_blocks=outs,
        in_blocks=ins,
        rows=rows,
        cols=cols,
        taps=taps,
        row_step=stride,
        row_span=span,
        col_step=stride,
        col_span=span,
        weights=taps,
        raw=True,
    )
    for _ in range(100):
        over = str(rng.choice(["chunks", "cols", "rows", "batches", "groups"]))
        sizes = [int(rng.integers(1, n + 1)) for n in (rows, cols, outs, ins)]
        tiling = Tiling(*sizes, keep_weights=bool(rng.integers(2)), threads=int(rng.integers(1, 4)), threads_over=over)
        if fits(config, problem, tiling):
            return tiling
    return None


# --- refusals -------------------------------------------------------------------------------------


def test_a_scalar_block_is_refused():
    s = product()
    with pytest.raises(LoweringError) as error:
        lower(CONFIG, s.fn)
    assert str(error.value) == (
        "product: block sums must be tensorized, as the VDLA has no scalar unit, got a scalar computation; "
        "tensorize its innermost loops"
    )


def test_a_buffer_overwritten_in_place_has_one_reader():
    shape = (2, B, O)
    x = te.placeholder(shape, "int32", "x")
    base = te.compute(shape, lambda *i: x[i], "base")
    left = te.compute(shape, lambda *i: base[i] + 1, "left")
    right = te.compute(shape, lambda *i: base[i] + 2, "right")
    outs = [te.compute(shape, lambda *i, t=t: t[i], f"{t.name}_out") for t in (left, right)]
    stores = [te.compute(shape, lambda *i, t=t: t[i], f"{t.name}_mem") for t in outs]
    s = Schedule(te.create_function([x], stores, "two"))
    add = vector.in_place(CONFIG, isa.VectorOp.ADD, isa.Operand.IMM)
    for name in ("base", "left", "right"):
        s.set_scope(name, "acc")
    for name in ("left_out", "right_out"):
        s.set_scope(name, "out")
    raw, store = requantise.raw(CONFIG), dma.store(CONFIG, raw=True)
    intrinsics = {"base": dma.load(CONFIG, Buffer.ACC), "left": add, "right": add, "left_out": raw, "right_out": raw}
    for name, intrinsic in (intrinsics | {"left_out_mem": store, "right_out_mem": store}).items():
        s.tensorize(s.loops(name)[-2], intrinsic)
    with pytest.raises(LoweringError) as error:
        lower(CONFIG, s.fn)
    assert str(error.value) == (
        "block left: base must be read by it alone, as its storage is overwritten in place, got right too; "
        "compute it twice"
    )


def test_a_buffer_is_overwritten_in_place_once():
    s = raised(kernel=2)
    s.compute_at("up", s.loops("most")[0])  # rows overlap
    with pytest.raises(LoweringError) as error:
        lower(CONFIG, stepped(s).fn)
    assert str(error.value) == (
        "raised: block up must read each part of base before it is overwritten in place, got a part that is "
        "overwritten already; compute both at one loop"
    )


def test_a_result_in_place_has_the_position_of_its_operand():
    with pytest.raises(LoweringError) as error:
        lower(CONFIG, stepped(raised(kernel=2, shift=1)).fn)
    assert str(error.value) == (
        "raised: block up must write the entry of base that it overwrites in place, got another entry of up; "
        "compute both at one loop"
    )


# --- legal schedules ------------------------------------------------------------------------------


def raised(kernel: int, rows: int = 5, shift: int = 0) -> Schedule:
    """out[y] = the maximum of kernel rows of x + 1; the addition is in place."""
    x = te.placeholder((rows, B, O), "int32", "x")
    base = te.compute(x.shape, lambda *i: x[i], "base")
    up = te.compute((rows - shift, B, O), lambda y, b, o: base[y + shift, b, o] + 1, "up")
    k = te.reduce_axis(kernel, "k")
    most = te.compute((rows - shift - kernel, B, O), lambda y, b, o: te.max(up[y + k, b, o], axis=k), "most")
    results = te.compute(most.shape, lambda *i: most[i], "results")
    s = Schedule(te.create_function([x], [te.compute(most.shape, lambda *i: results[i], "out")], "raised"))
    for name in ("base", "up", "most"):
        s.set_scope(name, "acc")
    s.set_scope("results", "out")
    y, b, o, k = s.loops("most")
    s.reorder(y, k, b, o)
    return s


def stepped(s: Schedule) -> Schedule:
    intrinsics = {
        "base": dma.load(CONFIG, Buffer.ACC),
        "up": vector.in_place(CONFIG, isa.VectorOp.ADD, isa.Operand.IMM),
        "most": vector.reduction(CONFIG, isa.VectorOp.MAX, isa.Source.ACC),
        "results": requantise.raw(CONFIG),
        "out": dma.store(CONFIG, raw=True),
    }
    for name, intrinsic in intrinsics.items():
        s.tensorize(s.loops(name)[-2], intrinsic)
    return s


def test_a_tile_may_be_larger_than_the_result_in_place():
    s = raised(kernel=2)
    s.compute_at("up", s.loops("most")[0])
    s.compute_at("base", s.loops("up")[0])
    s.store_at("base", None)
    x = np.arange(5 * B * O, dtype=np.int32).reshape(5, B, O)
    program = compile_function(CONFIG, stepped(s).fn)
    verify(program).raise_if_bad()
    np.testing.assert_array_equal(simulate(program, {"x": x}).outputs["out"], x[1:4] + 1)


def test_a_copy_emits_no_results():
    s = product(rows=1)
    copies = placed(s)
    copies["lanes"] = s.cache_read("results", "lanes", "scl")
    s.compute_at(copies["lanes"], s.loops("results")[0])
    n, m, r, o, k, i = s.loops("sums")
    s.reorder(n, m, k, r, o, i)
    tensorized(s, copies)
    assert kinds(s) == ["Load", "Load", "Gemm", "Load", "Vector", "Load", "Vector", "Store"]
    agree(s)


def test_results_computed_row_by_row_take_an_instruction_each():
    s, copies = ordered()
    s.reverse_compute_at("results", "m")
    tensorized(s, copies)
    assert kinds(s).count("Gemm") == 12
    agree(s)


def test_sums_that_reuse_an_entry_are_completed_one_by_one():
    s, copies = ordered()
    s.reverse_compute_at("results", "k")
    tensorized(s, copies)
    assert kinds(s).count("Gemm") == 48
    agree(s)


def test_a_reduction_over_several_kernels_completes_each_sum():
    s, copies = ordered(rows=2, ins=36)
    s.reverse_compute_at("results", "m")
    s.compute_at(copies["b"], "n")
    agree(tensorized(s, copies))


def test_no_result_is_emitted_without_a_sum():
    s = product(outs=3)
    copies = placed(s)
    n, m, r, o, k, i = s.loops("sums")
    outer, inner = s.split(n, factor=4)
    middle, inner = s.split(inner, factor=3)
    s.reorder(outer, m, middle, inner, k, r, o, i)
    s.reverse_compute_at("results", inner)
    tensorized(s, copies)
    assert "Vector" not in kinds(s)
    agree(s)


def test_a_non_affine_index_allocates_the_whole_dimension():
    s, copies = ordered()
    s.fuse("n", "m")
    agree(tensorized(s, copies))


@pytest.mark.parametrize("last", [False, True])
def test_results_are_emitted_once_where_a_reduction_is_cut_off(last):
    s, copies = ordered(ins=2)
    if last:  # the last iteration, which emits the results, has no terms
        _, k = s.split("k", factor=3)
        s.reverse_compute_at("results", k)
    else:  # the condition is part of that of the results, and cuts two loops
        s.reverse_compute_at("results", "k")
        outer, k = s.split("k", factor=2)
        s.split(outer, factor=4)
    agree(tensorized(s, copies))


def test_virtual_threads_without_tiles_of_their_own_are_named():
    s, copies = ordered()
    s.vthread("n")
    with pytest.warns(LoweringWarning) as found:
        lower(CONFIG, tensorized(s, copies).fn)
    assert [str(warning.message) for warning in found] == [
        "product: virtual threads of n must have tiles of their own to overlap, got none; "
        "compute a cache_read at n, or at a loop inside"
    ]
    s, copies = ordered()
    s.compute_at(copies["a"], "n")
    s.vthread("n")
    agree(tensorized(s, copies))  # where a warning would be an error


def test_loop_kinds_inside_an_entry_are_ignored():
    s, copies = ordered()
    s.vthread("o")
    agree(tensorized(s, copies))


def test_a_function_of_too_many_instructions_is_refused_before_any_is_made():
    operator = dense(CONFIG, rows=100_000, in_features=100_000, out_features=100_000)
    with pytest.raises(LoweringError) as error:
        lower(CONFIG, operator.function)
    assert re.fullmatch(
        r"compile_function dense: the loops around instructions must have at most 4194304 iterations in all, "
        r"got \d{8,}; use larger tiles or split the operator",
        str(error.value),
    )
