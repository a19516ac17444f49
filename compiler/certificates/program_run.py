# SPDX-License-Identifier: Apache-2.0
"""A program run on symbols: DMA moves them, instructions compute what they declare.

The instructions run in stream order, which is the meaning of a verified program. Buffers hold whole
elements; what would take one apart, such as half of a sum, is an error. The iterations of an
instruction that use different sums run at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates import stream_kernels
from vdla.compiler.certificates.compute_steps import ComputeSteps, KnownSteps
from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.extension_run import ExtensionRun
from vdla.compiler.certificates.known_bounds import known_bounds
from vdla.compiler.certificates.operations import binary, cast
from vdla.compiler.certificates.pending import PendingProducts
from vdla.compiler.certificates.pending_results import PendingResults, write
from vdla.compiler.certificates.stream_loop import StreamLoop
from vdla.compiler.certificates.symbolic_dram import SymbolicDram
from vdla.compiler.certificates.symbols import (
    CertificateError,
    Symbols,
    chosen,
    gathered,
)
from vdla.compiler.certificates.work_limit import spend_program
from vdla.compiler.extensions import base
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, EXTENSION, Emit, Opcode, Operand, Source, StagedEmit, VectorOp, decode_uops
from vdla.hardware.program import Program, ProgramTensor
from vdla.hardware.program.tensor import CONSTANT_BITS

_Row = Mapping[str, int]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Array = npt.NDArray[Any]
_OPCODE = COL["opcode"]


class SymbolicRun:
    """The buffers and the DRAM of a program, as symbols; DRAM is a flat array by tensor.

    What is there before the program is unknown, apart from its inputs and constants. Inputs are
    symbols, or integers where they are numbers that nothing is stored in; resident tensors may be
    among them. `looks_up`: what a stage computes of each result is a table's element, as networks
    have it. `offsets` has the bytes at which parts lie in their wholes.
    """

    runs_stores = True
    """Whether STOREs run in the compiled loop, like all others."""

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Symbols | _Array],
        looks_up: bool = False,
        offsets: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        spend_program(program)
        config = self.config = program.config
        self.program = program
        stored = set(program.tensor_of[program.columns[:, _OPCODE] == Opcode.STORE].tolist())
        self.dram = SymbolicDram(program, inputs, frozenset(stored), offsets)
        lanes = config.batch * config.block_out
        inp = _earlier("inp", (config.inp_depth, config.batch, config.block_in), config.inp_dtype)
        wgt = _earlier("wgt", (config.wgt_depth, config.block_out, config.block_in), config.wgt_dtype)
        self.scl = _earlier("scl", (config.scl_depth, config.block_out), "int64")
        self.acc = _earlier("acc", (config.acc_depth, lanes), "int32")
        out = self.out = _earlier("out", (config.out_depth, lanes), config.out_dtype)
        self.results = PendingResults(out, config.out_dtype, config.batch, self.dram.tensors)
        self.raw = _earlier("raw", (config.out_slots, lanes), "int32")
        self.products = PendingProducts(config, inp, wgt, self.acc)
        self.inp, self.wgt = self.products.inputs, self.products.weights
        self.extensions = ExtensionRun(config, self.products, self.acc, self.dram.packed, looks_up)
        self.index = 0
        self.is_raw = np.zeros(config.out_depth, np.bool_)
        self.uops = np.zeros((config.uop_depth, 5), np.int64)
        self.steps = KnownSteps(self.uops)
        self.repeats = False  # whether an instruction that the loop left is for the loop now

    def run(self) -> Mapping[str, Symbols]:
        """Run all instructions; the outputs, and what resident tensors are after the run, by name,
        in their packed shapes.
        """
        loop = self._loop()
        while True:
            why = loop.run()
            self.index, self.repeats = loop.index, False
            if why == stream_kernels.DONE:
                break
            try:
                if why == stream_kernels.LARGE:
                    self.products.add_large(loop.entry)
                    continue
                self._finish(loop.ended if why == stream_kernels.ENDED else None)
            except CertificateError as error:
                raise CertificateError(f"{error}, in instruction {self.index}") from None
            except (IndexError, ValueError):  # of NumPy; nothing else is out of its range
                rule = "program must stay in its buffers and tensors, as vdla verify shows"
                raise CertificateError(f"certify: {rule}, got instruction {self.index} that does not") from None
            loop.index += not self.repeats
        self.results.flush()
        kept = (tensor for tensor in self.program.tensors if tensor.role == "resident")
        outputs = [tensor for tensor in self.program.tensors if tensor.role == "output"]
        outputs += [tensor for tensor in kept if tensor.name in self.dram.tensors]
        return {tensor.name: self.dram[tensor.name].reshape(tensor.shape) for tensor in outputs}

    def _loop(self) -> StreamLoop:
        results = (self.scl, self.out, self.is_raw, self.results.places)
        buffers = (self.inp.state, self.wgt.state, self.products.state, results)
        return StreamLoop(self.program, self.dram, self.uops, buffers, stores=self.runs_stores)

    def _finish(self, ended: tuple[Symbols, _Ints] | None) -> None:
        """Run an instruction that the loop leaves, or what it leaves of one: sums that end."""
        columns, tensor = self.program.columns[self.index].tolist(), int(self.program.tensor_of[self.index])
        row = dict(zip(COL, columns, strict=False))
        if ended is None:
            self._execute(row, columns, tensor)
        else:
            sums, places = ended
            self._emit(row, sums, places[:, 0], places[:, 1])
        if row["emit"] == StagedEmit.STAGE and row["opcode"] not in (Opcode.LOAD, Opcode.STORE, Opcode.SYNC):
            self._stage(row)
        self.dram.note_waiting(self.results.has_stores)

    def _execute(self, row: _Row, columns: list[int], tensor: int) -> None:
        match row["opcode"]:
            case Opcode.LOAD:
                self._load(row, self.program.tensors[tensor] if tensor >= 0 else None)
            case Opcode.STORE:
                self._store(row, self.program.tensors[tensor])
            case Opcode.GEMM:
                raise IndexError("iterations must stay in all buffers")
            case Opcode.VECTOR:
                self._vectors(row)
            case opcode if opcode == EXTENSION:
                self._extension(row, columns)

    # --- DMA

    def _load(self, row: _Row, tensor: ProgramTensor | None) -> None:
        """A LOAD of micro-ops, of what waits to be stored, or of what cannot be loaded."""
        if Buffer(row["buffer"]) is Buffer.UOP:
            lines = row["z_size"] * (row["y_before"] + row["y_size"] + row["y_after"])
            count = lines * (row["x_before"] + row["x_size"] + row["x_after"])
            self.uops[row["sram"] : row["sram"] + count] = self._micro_ops(row, tensor)
            self.steps.forget()
            return
        if tensor is not None:
            entries = {Buffer.INP: self.inp.now, Buffer.WGT: self.wgt.now, Buffer.SCL: self.scl, Buffer.ACC: self.acc}
            self._window(row, tensor, entries[Buffer(row["buffer"])][0].size)
        if tensor is None or not self.results.has_stores(self.dram.place(tensor.name)[0]):
            raise IndexError("entries must be in their buffer")
        self.results.flush()
        self.repeats = True

    def _window(self, row: _Row, tensor: ProgramTensor, elements: int) -> list[int]:
        """The elements of a flat tensor that a transfer moves: the first, the steps and the counts
        of planes and lines, and the elements of a line. IndexError if the tensor has no such ones.
        """
        bits, axi = self.dram.bits(tensor.name), self.config.axi_bytes * 8
        begin, *steps = (row[name] * axi for name in ("dram", "z_stride", "y_stride"))
        z, y, line = row["z_size"], row["y_size"], row["x_size"] * elements
        expected = self._element_bits(row) if row["opcode"] == Opcode.LOAD else bits
        inside = begin % bits or (z > 1 and steps[0] % bits) or (y > 1 and steps[1] % bits)
        if bits != expected or inside:
            got = f"{bits} bits as {expected}" if bits != expected else "an address inside one"
            raise CertificateError(f"certify: elements of {tensor.name} must be moved whole, got {got}")
        ends = [(count - 1) * (step // bits) for count, step in zip((z, y), steps, strict=True) if count]
        first, size = begin // bits, self.dram.size(tensor.name)
        if z * y * line and (first + sum(map(_negative, ends)) < 0 or first + sum(map(_positive, ends)) + line > size):
            raise IndexError(f"{tensor.name} must have the places of a transfer, got {size} elements")
        return [first, steps[0] // bits, steps[1] // bits, z, y, line]

    def _element_bits(self, row: _Row) -> int:
        """The bits of the elements that a LOAD reads."""
        match Buffer(row["buffer"]):
            case Buffer.ACC:
                return self.config.inp_bits if row["widen"] else 32
            case Buffer.SCL:
                return 64
            case Buffer.WGT:
                return self.config.wgt_bits
        return self.config.inp_bits

    def _places(self, row: _Row, tensor: ProgramTensor, elements: int) -> _Ints:
        """The places of a window in a flat tensor, `[z, y, x * elements]`."""
        return _places_of(self._window(row, tensor, elements))

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
        bits, lanes = CONSTANT_BITS[tensor.dtype], self.raw.shape[1]
        if bits == self.config.out_bits and not self.is_raw[entries].any():
            whole, begin = self.dram.place(tensor.name)
            self.results.store(whole, begin + self._places(row, tensor, lanes), entries)
            return
        share = 32 // self.config.out_bits  # entries that a slot takes
        if bits != 32 or first % share or row["x_size"] % share or not self.is_raw[entries].all():
            raise CertificateError(f"certify: results must be stored whole, got {bits} bits of entries {first} on")
        slots = self.raw[first // share : (first + count) // share]
        self.results.flush()
        write(self.dram[tensor.name], self._places(row, tensor, lanes // share), slots)

    # --- compute

    def _vectors(self, row: _Row) -> None:
        """A VECTOR, by the operations themselves."""
        self.products.flush()
        steps = self.steps.of(row)
        for some in steps.rounds(reads_sums=row["source"] == Source.ACC):
            sums = self._vector(row, steps.acc[some], steps.src[some], steps.wgt[some], steps.starts[some])
            self.acc[steps.acc[some]] = sums
            self._emit_ends(row, steps, np.arange(len(steps.acc))[some], sums)

    def _extension(self, row: _Row, columns: list[int]) -> None:
        self.products.flush()
        steps, bounds = self.steps.of(row), known_bounds()
        for some in self.extensions.run(columns, steps):
            sums = gathered(self.acc, steps.acc[some])
            self._emit_ends(row, steps, some, sums if bounds is None else bounds.narrowed(sums))

    def _stage(self, row: _Row) -> None:
        """Put the results of an instruction through the stage; its states are those behind it."""
        steps = self.steps.of(row)
        entries = np.unique(steps.out[steps.ends])
        if len(entries):
            out = self.results.entries()
            out[entries] = self.extensions.staged(out[entries])

    def _emit_ends(self, row: _Row, steps: ComputeSteps, some: _Ints, sums: Symbols) -> None:
        """Emit the sums of those iterations that end one."""
        ends = steps.ends[some]
        if ends.any():
            self._emit(row, sums[ends], steps.scl[some][ends], steps.out[some][ends])

    def _vector(self, row: _Row, acc: _Ints, src: _Ints, wgt: _Ints, starts: _Bools) -> Symbols:
        op, config = VectorOp(row["op"]), self.config
        shape, old = (len(acc), self.acc.shape[1]), self.acc[acc]
        x = np.broadcast_to(numbers(0), shape)
        if row["operand"] == Operand.SRC or op is VectorOp.MAC:
            vectors = self.inp.now.reshape(-1, shape[1])
            x = cast(vectors[src], config.inp_dtype, "int32") if row["source"] == Source.INP else self.acc[src]
        b = np.broadcast_to(numbers(row["imm"]), shape)
        if row["operand"] == Operand.SRC:
            b = x
        elif row["operand"] == Operand.WGT:
            lanes = cast(self.wgt.now.reshape(-1, config.block_out)[wgt], config.wgt_dtype, "int32")
            b = np.tile(lanes, (1, config.batch))
        started = binary("mul", x, b, "int32") if op is VectorOp.MAC else b
        continued = started
        if op is VectorOp.MAC:
            continued = binary("add", old, started, "int32")
        elif op is not VectorOp.MOV:
            continued = _element_wise(op, old, b)
        return chosen(starts[:, None], started, continued)

    def _emit(self, row: _Row, sums: Symbols, scl: _Ints, out: _Ints) -> None:
        """Emit sums; those that are requantised wait for others."""
        if row["emit"] != Emit.RAW:
            bounds = (row["zero_point"], row["clip_lo"], row["clip_hi"])
            entries, scale = np.unique(scl, return_inverse=True)
            self.results.emit(bounds, sums, gathered(self.scl, entries), scale, out)
            self.is_raw[out] = False
            return
        share = 32 // self.config.out_bits
        self.raw[out] = sums
        for part in range(share):
            self.is_raw[out * share + part] = True
            self.results.overwrite(out * share + part)


def _places_of(window: Sequence[int]) -> _Ints:
    """The places of a window, `[planes, lines, elements]`."""
    first, z_step, y_step, planes, lines, line = window
    rows = first + np.arange(planes)[:, None, None] * z_step + np.arange(lines)[None, :, None] * y_step
    return rows + np.arange(line)


def _negative(value: int) -> int:
    return min(0, value)


def _positive(value: int) -> int:
    return max(0, value)


@lru_cache(maxsize=1024)
def _number(value: int) -> Symbols:
    return numbers(value)


def _earlier(what: str, shape: tuple[int, ...], dtype: str) -> Symbols:
    """What earlier programs left in a buffer or a tensor."""
    return unknowns(f"before the program: {what}", shape, dtype, 0)


def _element_wise(op: VectorOp, a: Symbols, b: Symbols) -> Symbols:
    return evaluate(_combining(op, a.shape), {"a": a, "b": b})["result"]


@lru_cache(maxsize=256)
def _combining(op: VectorOp, shape: tuple[int, int]) -> ir.Function:
    a, b = te.placeholder(shape, "int32", "a"), te.placeholder(shape, "int32", "b")
    result = te.compute(shape, lambda n, o: base.COMBINE[op](a[n, o], b[n, o]), "result")
    return te.create_function([a, b], [result], "combine")


def run_program(
    program: Program, inputs: Mapping[str, Symbols | _Array], offsets: Mapping[str, int] = MappingProxyType({})
) -> Mapping[str, Symbols]:
    """The outputs of a verified program on symbols, and its resident tensors after the run, by
    name, in their packed shapes; `offsets` has the bytes at which parts lie in their wholes.

    Raises:
        CertificateError: an instruction that has no meaning on symbols.
    """
    with np.errstate(all="ignore"):
        return SymbolicRun(program, inputs, offsets=offsets).run()
