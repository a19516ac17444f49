# SPDX-License-Identifier: Apache-2.0
"""The programs of the self-test: one for each kind of instruction, then a product and a convolution
as the compiler makes them.

They fit every configuration: sizes are a few entries, and all buffers hold more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.operators.workloads import SELF_TEST
from vdla.compiler.templates import dense
from vdla.hardware.config import MIN_TOKEN_DEPTH, Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, Operand, Source, Store, Sync, Unit, Vector, VectorOp
from vdla.hardware.numerics import pack_scale
from vdla.hardware.program import UOPS, Program
from vdla.runtime.diagnosis.known_program import KnownProgram
from vdla.runtime.diagnosis.layers import layer_operator, pack, random_data
from vdla.runtime.diagnosis.probes import StreamBuilder
from vdla.simulator.simulate import simulate

Array = npt.NDArray[Any]
_ROWS, _COLUMNS = 4, 4
_OPERANDS = 4  # entries that each operation of VECTOR works on
_IMMEDIATE = 3


@dataclass(frozen=True, slots=True)
class TestProgram:
    """A program, its packed inputs, and what it shows to work."""

    name: str
    program: Program
    inputs: Mapping[str, Array]

    __test__ = False  # no test class of pytest


def test_programs(config: Config) -> list[TestProgram]:
    """The programs in the order in which a fault is found most easily."""
    return [TestProgram(name, program, _random(program)) for name, program in _by_hand(config)] + list(
        _compiled(config)
    )


test_programs.__test__ = False  # type: ignore[attr-defined]


def simulated_programs(config: Config) -> Iterator[KnownProgram]:
    """The same programs with the results of the simulator."""
    for test in test_programs(config):
        result = simulate(test.program, test.inputs, config)
        yield KnownProgram(test.name, test.program, test.inputs, result.outputs, result.statistics)


def _random(program: Program) -> dict[str, Array]:
    """Random bytes for every input; scales that keep most results inside the range."""
    rng = np.random.default_rng(13)
    result: dict[str, Array] = {}
    for tensor in program.tensors:
        if tensor.role != "input":
            continue
        if tensor.dtype == "int64":
            count = tensor.nbytes // 8
            result[tensor.name] = pack_scale(
                rng.integers(-50, 50, count), rng.integers(1 << 14, 1 << 15, count), 22
            ).view(np.int64)
        else:
            limits = np.iinfo(tensor.dtype)
            result[tensor.name] = rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
    return result


# --- by hand --------------------------------------------------------------------------------------


def _by_hand(config: Config) -> Iterator[tuple[str, Program]]:
    yield "tokens", _tokens(config)
    yield "loads with padding", _padding(config)
    yield "widening loads", _widening(config)
    yield "vector, immediate", _vector(config, Operand.IMM)
    yield "vector, source", _vector(config, Operand.SRC)
    yield "vector, weights", _vector(config, Operand.WGT)
    yield "product, raw store", _product(config, Emit.RAW)
    yield "product, requantised", _product(config, Emit.REQUANT)
    yield "stores with strides", _strides(config)


def _tokens(config: Config) -> Program:
    """As many tokens as any machine holds in every queue, then taken again, twice."""
    builder = StreamBuilder(config, "tokens")
    for _ in range(2):
        for unit, fields in (
            (Unit.LOAD, {"push_next": 1}),
            (Unit.COMPUTE, {"pop_prev": 1, "push_next": 1}),
            (Unit.STORE, {"pop_prev": 1, "push_prev": 1}),
            (Unit.COMPUTE, {"pop_next": 1, "push_prev": 1}),
            (Unit.LOAD, {"pop_next": 1}),
        ):
            for _ in range(MIN_TOKEN_DEPTH):
                builder.add(Sync(unit, **fields))
    return builder.program()


def _beats(config: Config, buffer: Buffer) -> int:
    return config.entry_bytes[buffer] // config.axi_bytes


def _raw_store(builder: StreamBuilder, slots: int) -> Program:
    """Store the first raw results, then end."""
    config = builder.config
    entries = slots * config.acc_bits // config.out_bits
    target = builder.tensor("result", "output", entries * _beats(config, Buffer.OUT), "int32")
    return builder.add(Store(x_size=entries, pop_prev=1), target).program()


def _padding(config: Config) -> Program:
    """Rows with padding on all sides, copied to the sums and stored."""
    builder, beats = StreamBuilder(config, "padding"), _beats(config, Buffer.INP)
    source = builder.tensor("source", "input", 2 * 3 * beats)
    load = Load(Buffer.INP, y_size=2, x_size=2, y_stride=3 * beats, y_before=1, y_after=1, x_before=1, x_after=2,
                pad_value=-1, push_next=1)  # fmt: skip
    vectors = 4 * 5 * config.inp_entry_bytes // config.out_entry_bytes
    copy = Vector(op=VectorOp.MOV, source=Source.INP, operand=Operand.SRC, loop1=vectors, acc1=1, src1=1,
                  emit=Emit.RAW, pop_prev=1, push_next=1)  # fmt: skip
    builder.add(load, source).add(Load(Buffer.UOP), UOPS).add(copy)
    return _raw_store(builder, vectors)


def _widening(config: Config) -> Program:
    """Sums loaded from elements of the activation width, with padding, and one added."""
    builder, beats = StreamBuilder(config, "widening"), _beats(config, Buffer.OUT)
    source = builder.tensor("source", "input", 4 * beats)
    load = Load(Buffer.ACC, x_size=4, y_before=1, x_after=1, pad_value=-70000, widen=1)
    add = Vector(op=VectorOp.ADD, operand=Operand.IMM, imm=1, loop1=10, acc1=1, emit=Emit.RAW, push_next=1)
    builder.add(Load(Buffer.UOP), UOPS).add(load, source).add(add)
    return _raw_store(builder, 10)


def _vector(config: Config, operand: Operand) -> Program:
    """Every operation on sums of its own; the second operand as given."""
    builder = StreamBuilder(config, f"vector_{operand.name.lower()}")
    count, beats = len(VectorOp) * _OPERANDS, _beats(config, Buffer.ACC)
    sums = builder.tensor("sums", "input", (count + _OPERANDS) * beats, "int32")
    if operand == Operand.WGT:
        weights = builder.tensor("weights", "input", _OPERANDS * _beats(config, Buffer.WGT))
        builder.add(Load(Buffer.WGT, x_size=_OPERANDS, push_next=1), weights)
    builder.add(Load(Buffer.UOP), UOPS).add(Load(Buffer.ACC, x_size=count + _OPERANDS), sums)
    for number, op in enumerate(VectorOp):
        fields: dict[str, Any] = {"acc": number * _OPERANDS, "out": number * _OPERANDS}
        if operand == Operand.IMM:
            fields["imm"] = _IMMEDIATE
        if operand == Operand.SRC or op == VectorOp.MAC:
            fields |= {"src": count, "src1": 1}
        if operand == Operand.WGT:
            fields["wgt1"] = 1
        if operand == Operand.WGT and not number:
            fields["pop_prev"] = 1
        fields["push_next"] = int(number == len(VectorOp) - 1)
        builder.add(Vector(op=op, operand=operand, loop1=_OPERANDS, acc1=1, emit=Emit.RAW, **fields))
    return _raw_store(builder, count)


def _operands(builder: StreamBuilder) -> StreamBuilder:
    """Loads of input and weight entries for a product."""
    config = builder.config
    data = builder.tensor("data", "input", _ROWS * _beats(config, Buffer.INP))
    weights = builder.tensor("weights", "input", _COLUMNS * _beats(config, Buffer.WGT))
    builder.add(Load(Buffer.INP, x_size=_ROWS), data).add(Load(Buffer.WGT, x_size=_COLUMNS, push_next=1), weights)
    return builder.add(Load(Buffer.UOP), UOPS)


def _gemm(emit: Emit, **fields: int) -> Gemm:
    return Gemm(loop0=_ROWS, loop1=_COLUMNS, acc0=_COLUMNS, acc1=1, src0=1, wgt1=1, init=1, emit=emit, pop_prev=1,
                push_next=1, **fields)  # fmt: skip


def _product(config: Config, emit: Emit) -> Program:
    builder = StreamBuilder(config, f"product_{emit.name.lower()}")
    if emit == Emit.RAW:
        return _raw_store(_operands(builder).add(_gemm(emit)), _ROWS * _COLUMNS)
    scales = builder.tensor("scales", "input", _COLUMNS * _beats(config, Buffer.SCL), "int64")
    builder.add(Load(Buffer.SCL, x_size=_COLUMNS), scales)
    top = (1 << (config.out_bits - 1)) - 1
    _operands(builder).add(_gemm(emit, scl1=1, zero_point=1, clip_lo=-top, clip_hi=top))
    count = _ROWS * _COLUMNS
    target = builder.tensor("result", "output", count * _beats(config, Buffer.OUT))
    return builder.add(Store(x_size=count, pop_prev=1), target).program()


def _strides(config: Config) -> Program:
    """Planes and rows that lie apart; the bytes between them stay."""
    builder, beats = _operands(StreamBuilder(config, "strides")), _beats(config, Buffer.OUT)
    builder.add(_gemm(Emit.RAW))
    row, plane = 3 * beats, 10 * beats
    target = builder.tensor("result", "output", 2 * plane)
    store = Store(z_size=2, y_size=3, x_size=2, z_stride=plane, y_stride=row, pop_prev=1)
    return builder.add(store, target).program()


# --- compiled -------------------------------------------------------------------------------------


def _compiled(config: Config) -> Iterator[TestProgram]:
    operator = dense(config, rows=6, in_features=20, out_features=12, raw=True)
    rng, low = np.random.default_rng(13), -(1 << (min(config.inp_bits, config.wgt_bits) - 1))
    draw: Callable[..., Array] = lambda *shape: rng.integers(low, -low, shape, np.int8)  # noqa: E731  an alias
    yield TestProgram("compiled product", operator.program, operator.pack(draw(6, 20), draw(12, 20)))
    operator = layer_operator(SELF_TEST, config, 2)
    yield TestProgram("compiled convolution", operator.program, pack(operator, random_data(SELF_TEST, config, 13)))
