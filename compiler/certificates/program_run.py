# SPDX-License-Identifier: Apache-2.0
"""A program run on symbols: DMA moves them, instructions compute what they declare.

The instructions run in stream order, which is the meaning of a verified program. Buffers hold whole
elements; what would take one apart, such as half of a sum, is an error. The iterations of an
instruction that use different sums run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.symbols import (
    SYMBOL,
    CertificateError,
    Symbols,
    binary,
    cast,
    numbers,
    summed,
    unknowns,
)
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.extensions import base
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, EXTENSION, Emit, Opcode, Operand, Source, VectorOp, decode_uops
from vdla.hardware.numerics import unpack_elements
from vdla.hardware.program import Program, ProgramTensor
from vdla.hardware.program.tensor import CONSTANT_BITS, UOP

_Row = Mapping[str, int]
_Ints = npt.NDArray[np.int64]


class SymbolicRun:
    """The buffers and the DRAM of a program, as symbols; DRAM is a flat array by tensor.

    What is there before the program is unknown, apart from its inputs and constants.
    """

    def __init__(self, program: Program, inputs: Mapping[str, Symbols]) -> None:
        config = self.config = program.config
        if config.extensions or config.stage is not None:
            raise CertificateError(f"certify: machine must have no extensions yet, got {config.name}")
        self.program = program
        self.dram = {tensor.name: _content(tensor, inputs.get(tensor.name)) for tensor in program.tensors}
        lanes = config.batch * config.block_out
        self.inp = _earlier("inp", (config.inp_depth, config.batch, config.block_in), config.inp_dtype)
        self.wgt = _earlier("wgt", (config.wgt_depth, config.block_out, config.block_in), config.wgt_dtype)
        self.scl = _earlier("scl", (config.scl_depth, config.block_out), "int64")
        self.acc = _earlier("acc", (config.acc_depth, lanes), "int32")
        self.out = _earlier("out", (config.out_depth, lanes), config.out_dtype)
        self.raw = _earlier("raw", (config.out_slots, lanes), "int32")
        self.is_raw = np.zeros(config.out_depth, np.bool_)
        self.uops = np.zeros((config.uop_depth, 5), np.int64)

    def run(self) -> Mapping[str, Symbols]:
        """Run all instructions; the outputs by name, in their packed shapes."""
        for index, columns in enumerate(self.program.columns.tolist()):
            row = {name: columns[place] for name, place in COL.items()}
            try:
                self._execute(row, int(self.program.tensor_of[index]))
            except CertificateError as error:
                raise CertificateError(f"{error}, in instruction {index}") from None
            except (IndexError, ValueError):  # of NumPy; nothing else is out of its range
                rule = "program must stay in its buffers and tensors, as vdla verify shows"
                raise CertificateError(f"certify: {rule}, got instruction {index} that does not") from None
        outputs = (tensor for tensor in self.program.tensors if tensor.role == "output")
        return {tensor.name: self.dram[tensor.name].reshape(tensor.shape) for tensor in outputs}

    def _execute(self, row: _Row, tensor: int) -> None:
        match row["opcode"]:
            case Opcode.LOAD:
                self._load(row, self.program.tensors[tensor] if tensor >= 0 else None)
            case Opcode.STORE:
                self._store(row, self.program.tensors[tensor])
            case Opcode.GEMM:
                self._compute(row, self._product)
            case Opcode.VECTOR:
                self._compute(row, self._vector)
            case opcode if opcode == EXTENSION:
                raise CertificateError("certify: instruction must be of the machine itself, got an extension's")

    # --- DMA

    def _load(self, row: _Row, tensor: ProgramTensor | None) -> None:
        buffer, (z, y, x) = Buffer(row["buffer"]), (row["z_size"], row["y_size"], row["x_size"])
        rows, columns = row["y_before"] + y + row["y_after"], row["x_before"] + x + row["x_after"]
        first, count = row["sram"], z * rows * columns
        if buffer is Buffer.UOP:
            self.uops[first : first + count] = self._micro_ops(row, tensor)
            return
        target = {Buffer.INP: self.inp, Buffer.WGT: self.wgt, Buffer.SCL: self.scl, Buffer.ACC: self.acc}[buffer]
        grid = np.broadcast_to(numbers(row["pad_value"]), (z, rows, columns, *target.shape[1:])).copy()
        if tensor is not None and y * x:
            elements = self.dram[tensor.name][self._places(row, tensor, target[0].size, row["widen"])]
            inner = grid[:, row["y_before"] : row["y_before"] + y, row["x_before"] : row["x_before"] + x]
            inner[...] = elements.reshape(inner.shape)
        target[first : first + count] = grid.reshape(count, *target.shape[1:])

    def _places(self, row: _Row, tensor: ProgramTensor, elements: int, widen: int) -> _Ints:
        """The places of a window in a flat tensor, `[z, y, x * elements]`."""
        bits, axi = CONSTANT_BITS[tensor.dtype], self.config.axi_bytes * 8
        stored = {Buffer.ACC: self.config.inp_bits if widen else 32, Buffer.SCL: 64, Buffer.WGT: self.config.wgt_bits}
        expected = stored.get(Buffer(row["buffer"]), self.config.inp_bits) if row["opcode"] == Opcode.LOAD else bits
        beats = (
            row["dram"]
            + np.arange(row["z_size"])[:, None, None] * row["z_stride"]
            + np.arange(row["y_size"])[None, :, None] * row["y_stride"]
        )
        if bits != expected or (beats * axi % bits).any():
            raise CertificateError(
                f"certify: elements of {tensor.name} must be moved whole, got {bits} bits as {expected}"
            )
        return beats * axi // bits + np.arange(row["x_size"] * elements)

    def _micro_ops(self, row: _Row, tensor: ProgramTensor | None) -> _Ints:
        if tensor is None or tensor.data is None:
            raise CertificateError("certify: micro-ops must be constants of the program, got an input")
        size, first = self.config.uop_entry_bytes, row["dram"] * self.config.axi_bytes
        data = np.frombuffer(tensor.data, np.uint8)[first : first + row["x_size"] * size]
        decoded = decode_uops(self.config, data.reshape(-1, size))
        return np.array([(u.acc, u.src, u.wgt, u.first, u.last) for u in decoded], np.int64)

    def _store(self, row: _Row, tensor: ProgramTensor) -> None:
        count, first = row["z_size"] * row["y_size"] * row["x_size"], row["sram"]
        entries = slice(first, first + count)
        bits, lanes = CONSTANT_BITS[tensor.dtype], self.out.shape[1]
        if bits == self.config.out_bits and not self.is_raw[entries].any():
            self._put(row, tensor, self.out[entries], lanes)
            return
        share = 32 // self.config.out_bits  # entries that a slot takes
        if bits != 32 or first % share or row["x_size"] % share or not self.is_raw[entries].all():
            raise CertificateError(f"certify: results must be stored whole, got {bits} bits of entries {first} on")
        slots = self.raw[first // share : (first + count) // share]
        self._put(row, tensor, slots, lanes // share)

    def _put(self, row: _Row, tensor: ProgramTensor, entries: Symbols, elements: int) -> None:
        places = self._places(row, tensor, elements, 0)
        values = entries.reshape(places.shape)
        for plane, line in np.ndindex(*places.shape[:2]):  # where rows overlap, the last one wins
            self.dram[tensor.name][places[plane, line]] = values[plane, line]

    # --- compute

    def _compute(self, row: _Row, step: Callable[[_Row, _Ints, _Ints, _Ints, npt.NDArray[np.bool_]], Symbols]) -> None:
        """The iterations of an instruction; `step` has the new sums of some, from indices."""
        uops = self.uops[row["uop_begin"] : row["uop_end"]]
        i, j, u = (part.reshape(-1) for part in np.indices((row["loop0"], row["loop1"], len(uops))))
        offset = i * row["acc0"] + j * row["acc1"] + uops[u, 0]
        src = row["src"] + i * row["src0"] + j * row["src1"] + uops[u, 1]
        wgt = row["wgt"] + i * row["wgt0"] + j * row["wgt1"] + uops[u, 2]
        scl = row["scl"] + i * row["scl0"] + j * row["scl1"]
        starts, ends = uops[u, 3] * row["init"] != 0, (uops[u, 4] != 0) & (row["emit"] != Emit.NONE)
        acc = offset + row["acc"]
        in_order = row["opcode"] == Opcode.VECTOR and row["source"] == Source.ACC
        for some in _rounds(acc, src if in_order else None):
            sums = step(row, acc[some], src[some], wgt[some], starts[some])
            self.acc[acc[some]] = sums
            sent = ends[some]
            if sent.any():
                self._emit(row, sums[sent], scl[some][sent], row["out"] + offset[some][sent])

    def _product(self, row: _Row, acc: _Ints, src: _Ints, wgt: _Ints, starts: npt.NDArray[np.bool_]) -> Symbols:
        terms = binary(
            "mul",
            cast(self.inp[src][:, :, None, :], self.config.inp_dtype, "int32"),
            cast(self.wgt[wgt][:, None, :, :], self.config.wgt_dtype, "int32"),
            "int32",
        )
        sums = summed(terms, (3,), "int32").reshape(len(acc), -1)
        return binary("add", np.where(starts[:, None], numbers(0), self.acc[acc]), sums, "int32")

    def _vector(self, row: _Row, acc: _Ints, src: _Ints, wgt: _Ints, starts: npt.NDArray[np.bool_]) -> Symbols:
        op, config = VectorOp(row["op"]), self.config
        shape, old = (len(acc), self.acc.shape[1]), self.acc[acc]
        x = np.broadcast_to(numbers(0), shape)
        if row["operand"] == Operand.SRC or op is VectorOp.MAC:
            vectors = self.inp.reshape(-1, shape[1])
            x = cast(vectors[src], config.inp_dtype, "int32") if row["source"] == Source.INP else self.acc[src]
        b = np.broadcast_to(numbers(row["imm"]), shape)
        if row["operand"] == Operand.SRC:
            b = x
        elif row["operand"] == Operand.WGT:
            lanes = cast(self.wgt.reshape(-1, config.block_out)[wgt], config.wgt_dtype, "int32")
            b = np.tile(lanes, (1, config.batch))
        started = binary("mul", x, b, "int32") if op is VectorOp.MAC else b
        continued = started
        if op is VectorOp.MAC:
            continued = binary("add", old, started, "int32")
        elif op is not VectorOp.MOV:
            continued = _element_wise(op, old, b)
        return np.where(starts[:, None], started, continued)

    def _emit(self, row: _Row, sums: Symbols, scl: _Ints, out: _Ints) -> None:
        share = 32 // self.config.out_bits
        if row["emit"] == Emit.RAW:
            self.raw[out] = sums
            for part in range(share):
                self.is_raw[out * share + part] = True
            return
        lanes = np.tile(self.scl[scl], (1, self.config.batch))
        limits = (row["zero_point"], row["clip_lo"], row["clip_hi"])
        self.out[out] = _requantised(sums, lanes, limits, self.config.out_dtype)
        self.is_raw[out] = False


def _earlier(what: str, shape: tuple[int, ...], dtype: str) -> Symbols:
    """What earlier programs left in a buffer or a tensor."""
    return unknowns(f"before the program: {what}", shape, dtype, 0)


def _content(tensor: ProgramTensor, given: Symbols | None) -> Symbols:
    """The flat elements of a tensor: its data, what is given, or unknown."""
    if tensor.data is not None and tensor.dtype != UOP:
        bits, data = CONSTANT_BITS[tensor.dtype], np.frombuffer(tensor.data, np.uint8)
        if bits < 8:
            return numbers(unpack_elements(data, bits))
        return numbers(data.view(f"{'u' if tensor.dtype == 'uint8' else 'i'}{bits // 8}"))
    if given is None:
        unknown = np.zeros(0, SYMBOL) if tensor.dtype == UOP else _earlier(tensor.name, tensor.shape, tensor.dtype)
        return unknown.reshape(-1)
    return given.reshape(-1).copy()


def _rounds(acc: _Ints, read: _Ints | None) -> Iterator[Any]:
    """Iterations that may run at once, in order: none uses a sum that another one writes."""
    if read is not None and np.isin(read, acc).any():
        yield from (slice(k, k + 1) for k in range(len(acc)))
        return
    order = np.argsort(acc, kind="stable")
    ordered = acc[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    position = np.empty(len(acc), np.int64)
    position[order] = np.arange(len(acc)) - np.repeat(begins, np.diff(np.r_[begins, len(acc)]))
    for number in range(int(position.max()) + 1):
        yield np.flatnonzero(position == number)


def _element_wise(op: VectorOp, a: Symbols, b: Symbols) -> Symbols:
    return evaluate(_combining(op, a.shape), {"a": a, "b": b})["result"]


@lru_cache(maxsize=256)
def _combining(op: VectorOp, shape: tuple[int, int]) -> ir.Function:
    a, b = te.placeholder(shape, "int32", "a"), te.placeholder(shape, "int32", "b")
    result = te.compute(shape, lambda n, o: base.COMBINE[op](a[n, o], b[n, o]), "result")
    return te.create_function([a, b], [result], "combine")


def _requantised(sums: Symbols, lanes: Symbols, bounds: tuple[int, int, int], dtype: str) -> Symbols:
    return evaluate(_requantising(sums.shape, bounds, dtype), {"sums": sums, "lanes": lanes})["result"]


@lru_cache(maxsize=256)
def _requantising(shape: tuple[int, int], bounds: tuple[int, int, int], dtype: str) -> ir.Function:
    sums, lanes = te.placeholder(shape, "int32", "sums"), te.placeholder(shape, "int64", "lanes")
    zero, low, high = (te.const(bound, "int64") for bound in bounds)
    result = te.compute(shape, lambda n, o: requantisation(sums[n, o], lanes[n, o], zero, low, high, dtype), "result")
    return te.create_function([sums, lanes], [result], "requantise")


def run_program(program: Program, inputs: Mapping[str, Symbols]) -> Mapping[str, Symbols]:
    """The outputs of a verified program on symbols, by name, in their packed shapes.

    Raises:
        CertificateError: an instruction that has no meaning on symbols.
    """
    with np.errstate(all="ignore"):
        return SymbolicRun(program, inputs).run()
