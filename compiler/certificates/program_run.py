# SPDX-License-Identifier: Apache-2.0
"""A program run on symbols: DMA moves them, instructions compute what they declare.

The instructions run in stream order, which is the meaning of a verified program. Buffers hold whole
elements; what would take one apart, such as half of a sum, is an error. The iterations of an
instruction that use different sums run at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates import sum_kernels
from vdla.compiler.certificates.compute_steps import ComputeSteps, KnownSteps
from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.extension_run import ExtensionRun
from vdla.compiler.certificates.operations import binary, cast
from vdla.compiler.certificates.pending import VECTOR_OPS, PendingProducts, combine_sums
from vdla.compiler.certificates.pending_results import PendingResults, write
from vdla.compiler.certificates.symbols import (
    SYMBOL,
    CertificateError,
    Symbols,
    chosen,
    gathered,
)
from vdla.compiler.extensions import base
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, EXTENSION, Emit, Opcode, Operand, Source, StagedEmit, VectorOp, decode_uops
from vdla.hardware.numerics import unpack_elements
from vdla.hardware.program import Program, ProgramTensor
from vdla.hardware.program.tensor import CONSTANT_BITS, UOP

_Row = Mapping[str, int]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_OPCODE, _EMIT = COL["opcode"], COL["emit"]
_NOTHING = np.zeros(1, SYMBOL)
_ANY = 1 << 62  # the depth of a buffer that an instruction does not read


class SymbolicRun:
    """The buffers and the DRAM of a program, as symbols; DRAM is a flat array by tensor.

    What is there before the program is unknown, apart from its inputs and constants.
    """

    def __init__(self, program: Program, inputs: Mapping[str, Symbols]) -> None:
        config = self.config = program.config
        self.program = program
        stored = set(program.tensor_of[program.columns[:, COL["opcode"]] == Opcode.STORE].tolist())
        self.dram = {
            tensor.name: _content(tensor, inputs.get(tensor.name), stored=index in stored)
            for index, tensor in enumerate(program.tensors)
        }
        lanes = config.batch * config.block_out
        inp = _earlier("inp", (config.inp_depth, config.batch, config.block_in), config.inp_dtype)
        wgt = _earlier("wgt", (config.wgt_depth, config.block_out, config.block_in), config.wgt_dtype)
        self.scl = _earlier("scl", (config.scl_depth, config.block_out), "int64")
        self.acc = _earlier("acc", (config.acc_depth, lanes), "int32")
        out = _earlier("out", (config.out_depth, lanes), config.out_dtype)
        self.results = PendingResults(out, config.out_dtype, config.batch, self.dram)
        self.raw = _earlier("raw", (config.out_slots, lanes), "int32")
        self.products = PendingProducts(config, inp, wgt, self.acc)
        self.inp, self.wgt = self.products.inputs, self.products.weights
        self.extensions = ExtensionRun(config, self.products, self.acc)
        self.index = 0
        self._targets = {
            Buffer.INP: self.inp.now, Buffer.WGT: self.wgt.now, Buffer.SCL: self.scl, Buffer.ACC: self.acc
        }  # fmt: skip
        self._depths = (config.acc_depth, config.inp_depth, config.wgt_depth, config.scl_depth, config.out_depth)
        self.is_raw = np.zeros(config.out_depth, np.bool_)
        self.uops = np.zeros((config.uop_depth, 5), np.int64)
        self.steps = KnownSteps(self.uops)

    def run(self) -> Mapping[str, Symbols]:
        """Run all instructions; the outputs by name, in their packed shapes."""
        waiting: list[list[int]] = []
        for index, columns in enumerate(self.program.columns.tolist()):
            self.index = index
            try:
                if columns[_OPCODE] == Opcode.GEMM and columns[_EMIT] == Emit.NONE:
                    waiting.append(columns)
                    continue
                self._multiply(waiting)
                row = dict(zip(COL, columns, strict=False))
                self._execute(row, columns, int(self.program.tensor_of[index]))
            except CertificateError as error:
                raise CertificateError(f"{error}, in instruction {self.index}") from None
            except (IndexError, ValueError):  # of NumPy; nothing else is out of its range
                rule = "program must stay in its buffers and tensors, as vdla verify shows"
                raise CertificateError(f"certify: {rule}, got instruction {self.index} that does not") from None
        self.results.flush()
        outputs = (tensor for tensor in self.program.tensors if tensor.role == "output")
        return {tensor.name: self.dram[tensor.name].reshape(tensor.shape) for tensor in outputs}

    def _execute(self, row: _Row, columns: list[int], tensor: int) -> None:
        match row["opcode"]:
            case Opcode.LOAD:
                self._load(row, self.program.tensors[tensor] if tensor >= 0 else None)
            case Opcode.STORE:
                self._store(row, self.program.tensors[tensor])
            case Opcode.GEMM:
                self._gemm(row, columns)
            case Opcode.VECTOR:
                self._vectors(row, columns)
            case opcode if opcode == EXTENSION:
                self._extension(row, columns)
        if row["emit"] == StagedEmit.STAGE and row["opcode"] not in (Opcode.LOAD, Opcode.STORE, Opcode.SYNC):
            self._stage(row)

    # --- DMA

    def _load(self, row: _Row, tensor: ProgramTensor | None) -> None:
        buffer, (z, y, x) = Buffer(row["buffer"]), (row["z_size"], row["y_size"], row["x_size"])
        rows, columns = row["y_before"] + y + row["y_after"], row["x_before"] + x + row["x_after"]
        first, count = row["sram"], z * rows * columns
        if buffer is Buffer.UOP:
            self.uops[first : first + count] = self._micro_ops(row, tensor)
            self.steps.forget()
            return
        target = self._targets[buffer]
        size = target[0].size
        source, window = _NOTHING, [0, 0, 0, z, y, 0]
        if tensor is not None and y * x:
            source, window = self.dram[tensor.name], self._window(row, tensor, size)
            if self.results.has_stores(tensor.name):
                self.results.before_read(tensor.name, _places_of(window))
        if first < 0 or first + count > len(target):
            raise IndexError(f"entries must be below {len(target)}, got {first + count}")
        if buffer is Buffer.ACC:
            self.products.flush()
        around = [row["y_before"], row["y_after"], row["x_before"] * size, row["x_after"] * size]
        if not y * x:  # all is padding
            around = [rows - y, 0, columns * size, 0]
            window = [0, 0, 0, z, y, 0]
        padding = _number(row["pad_value"]).reshape(1)
        sum_kernels.load(source, np.array([*window, *around]), padding, target.reshape(-1), first * size)
        if buffer in (Buffer.INP, Buffer.WGT):
            (self.inp if buffer is Buffer.INP else self.wgt).prepare(first, count)

    def _window(self, row: _Row, tensor: ProgramTensor, elements: int) -> list[int]:
        """The elements of a flat tensor that a transfer moves: the first, the steps and the counts
        of planes and lines, and the elements of a line. IndexError if the tensor has no such ones.
        """
        bits, axi = CONSTANT_BITS[tensor.dtype], self.config.axi_bytes * 8
        begin, *steps = (row[name] * axi for name in ("dram", "z_stride", "y_stride"))
        z, y, line = row["z_size"], row["y_size"], row["x_size"] * elements
        expected = self._element_bits(row) if row["opcode"] == Opcode.LOAD else bits
        inside = begin % bits or (z > 1 and steps[0] % bits) or (y > 1 and steps[1] % bits)
        if bits != expected or inside:
            got = f"{bits} bits as {expected}" if bits != expected else "an address inside one"
            raise CertificateError(f"certify: elements of {tensor.name} must be moved whole, got {got}")
        ends = [(count - 1) * (step // bits) for count, step in zip((z, y), steps, strict=True) if count]
        first, size = begin // bits, len(self.dram[tensor.name])
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
            self.results.store(tensor.name, self._places(row, tensor, lanes), entries)
            return
        share = 32 // self.config.out_bits  # entries that a slot takes
        if bits != 32 or first % share or row["x_size"] % share or not self.is_raw[entries].all():
            raise CertificateError(f"certify: results must be stored whole, got {bits} bits of entries {first} on")
        slots = self.raw[first // share : (first + count) // share]
        self.results.flush()
        write(self.dram[tensor.name], self._places(row, tensor, lanes // share), slots)

    # --- compute

    def _multiply(self, waiting: list[list[int]]) -> None:
        """The GEMMs that wait, which emit nothing, one after the other."""
        index = self.index
        queue = []
        for place, columns in enumerate(waiting):
            self.index = index - len(waiting) + place
            queue.append(self.steps.queued(columns, self._depths))
        self.index = index
        if queue:
            self.products.multiply(self.steps.table, np.array(queue))
        waiting.clear()

    def _gemm(self, row: _Row, columns: list[int]) -> None:
        queue = np.array([self.steps.queued(columns, self._depths)])
        self._emit_sums(row, *self.products.multiply(self.steps.table, queue))

    def _emit_sums(self, row: _Row, sums: Symbols, ended: _Ints) -> None:
        if len(ended):
            self._emit(row, sums, ended[:, 0], ended[:, 1])

    def _vectors(self, row: _Row, columns: list[int]) -> None:
        made = self._compiled_vector(row, columns)
        if made is not None:
            self._emit_sums(row, *made)
            return
        self.products.flush()
        steps = self.steps.of(row)
        for some in steps.rounds(reads_sums=row["source"] == Source.ACC):
            sums = self._vector(row, steps.acc[some], steps.src[some], steps.wgt[some], steps.starts[some])
            self.acc[steps.acc[some]] = sums
            self._emit_ends(row, steps, np.arange(len(steps.acc))[some], sums)

    def _compiled_vector(self, row: _Row, columns: list[int]) -> tuple[Symbols, _Ints] | None:
        """The sums that end in a VECTOR; None, and nothing has changed, if no loop covers it."""
        op, operand, by_inp = VectorOp(row["op"]), Operand(row["operand"]), row["source"] == Source.INP
        x = self.inp.now.reshape(-1, self.acc.shape[1]) if by_inp else self.acc
        second = self.wgt.now.reshape(-1, self.config.block_out)
        reads_x = operand == Operand.SRC or op is VectorOp.MAC
        depths = (len(x) if reads_x else _ANY, len(second) if operand == Operand.WGT else _ANY)
        queue = np.array([self.steps.queued(columns, (self._depths[0], *depths, *self._depths[3:]))])
        made: tuple[Symbols, _Ints] | None = None
        if op is VectorOp.MAC and by_inp and operand == Operand.WGT:
            made = self.products.multiply_lanes(self.steps.table, queue)
        if made is None and op in VECTOR_OPS:
            self.products.flush()
            types = (self.config.inp_dtype if by_inp else "int32", self.config.wgt_dtype)
            if operand == Operand.IMM:
                second, types, queue[0, 4] = _number(row["imm"]).reshape(1, 1), (types[0], "int32"), 0
            made = combine_sums(op, operand, self.steps.table, queue, (x, second), types, self.acc)
        return made

    def _extension(self, row: _Row, columns: list[int]) -> None:
        self.products.flush()
        steps = self.steps.of(row)
        emits = row["emit"] != Emit.NONE and steps.ends.any()
        for some in _until_ends(steps) if emits else [slice(None)]:
            part = steps.only(some)
            self.extensions.run(columns, row, part)
            if part.ends.any():
                self._emit_ends(row, part, np.array([-1]), self.acc[part.acc[-1:]].copy())

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


def _until_ends(steps: ComputeSteps) -> Iterator[slice]:
    """The steps of an instruction in parts, each up to one that ends a sum."""
    begin = 0
    for end in [*(np.flatnonzero(steps.ends) + 1).tolist(), len(steps.ends)]:
        if end > begin:
            yield slice(begin, end)
        begin = end


def _earlier(what: str, shape: tuple[int, ...], dtype: str) -> Symbols:
    """What earlier programs left in a buffer or a tensor."""
    return unknowns(f"before the program: {what}", shape, dtype, 0)


def _content(tensor: ProgramTensor, given: Symbols | None, *, stored: bool) -> Symbols:
    """The flat elements of a tensor, a copy if some are `stored`: data, given, or unknown."""
    if tensor.data is not None and tensor.dtype != UOP:
        bits, data = CONSTANT_BITS[tensor.dtype], np.frombuffer(tensor.data, np.uint8)
        if bits < 8:
            return numbers(unpack_elements(data, bits))
        return numbers(data.view(f"{'u' if tensor.dtype == 'uint8' else 'i'}{bits // 8}"))
    if given is None:
        unknown = np.zeros(0, SYMBOL) if tensor.dtype == UOP else _earlier(tensor.name, tensor.shape, tensor.dtype)
        return unknown.reshape(-1)
    return given.reshape(-1).copy() if stored else given.reshape(-1)


def _element_wise(op: VectorOp, a: Symbols, b: Symbols) -> Symbols:
    return evaluate(_combining(op, a.shape), {"a": a, "b": b})["result"]


@lru_cache(maxsize=256)
def _combining(op: VectorOp, shape: tuple[int, int]) -> ir.Function:
    a, b = te.placeholder(shape, "int32", "a"), te.placeholder(shape, "int32", "b")
    result = te.compute(shape, lambda n, o: base.COMBINE[op](a[n, o], b[n, o]), "result")
    return te.create_function([a, b], [result], "combine")


def run_program(program: Program, inputs: Mapping[str, Symbols]) -> Mapping[str, Symbols]:
    """The outputs of a verified program on symbols, by name, in their packed shapes.

    Raises:
        CertificateError: an instruction that has no meaning on symbols.
    """
    with np.errstate(all="ignore"):
        return SymbolicRun(program, inputs).run()
