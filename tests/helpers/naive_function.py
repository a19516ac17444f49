# SPDX-License-Identifier: Apache-2.0
"""docs/instructions.md transcribed into Python and NumPy: the oracle of the compiled engine.

Buffers hold packed bytes, as DRAM does; elements are unpacked at every read.
"""

import numpy as np

from helpers.vector_arithmetic import vector_op, vector_start
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import storage_dtype
from vdla.hardware.isa import (
    EXTENSION,
    Buffer,
    Emit,
    Opcode,
    Operand,
    Source,
    StagedEmit,
    VectorOp,
    decode_uops,
    isa_of,
)
from vdla.hardware.numerics import pack_elements, requantise, unpack_elements, wrap32


class Naive:
    def __init__(self, config, columns, dram, extensions=(), stage=None):
        self.c = config
        self.extensions = extensions
        self.stage = stage
        self.states = {}  # by unit and name: rows, undefined until they are written
        self.rows = [{name: int(row[index]) for name, index in isa_of(config).col.items()} for row in columns]
        self.dram = dram
        self.buffers = {b: np.zeros((config.depths[b], config.entry_bytes[b]), np.uint8) for b in Buffer}

    def execute(self, index):
        r = self.rows[index]
        run = {
            Opcode.LOAD: self.load,
            Opcode.STORE: self.store,
            Opcode.GEMM: self.gemm,
            Opcode.VECTOR: self.vector,
            EXTENSION: self.extended,
        }
        run.get(r["opcode"], lambda r: None)(r)

    # --- DMA --------------------------------------------------------------------------------------

    def load(self, r):
        buffer = Buffer(r["buffer"])
        at = r["sram"]
        for z in range(r["z_size"]):
            for y in range(-r["y_before"], r["y_size"] + r["y_after"]):
                for x in range(-r["x_before"], r["x_size"] + r["x_after"]):
                    inside = 0 <= y < r["y_size"] and 0 <= x < r["x_size"]
                    self.buffers[buffer][at] = self.datum(r, buffer, z, y, x) if inside else self.padding(r, buffer)
                    at += 1

    def datum(self, r, buffer, z, y, x):
        size = self.c.out_entry_bytes if r["widen"] else self.c.entry_bytes[buffer]
        begin = (r["dram"] + z * r["z_stride"] + y * r["y_stride"]) * self.c.axi_bytes + x * size
        data = self.dram[begin : begin + size]
        return unpack_elements(data, self.c.inp_bits).astype("<i4").view(np.uint8) if r["widen"] else data

    def padding(self, r, buffer):
        elements = self.c.batch * (self.c.block_in if buffer == Buffer.INP else self.c.block_out)
        if buffer == Buffer.INP:
            return pack_elements(np.full(elements, r["pad_value"]), self.c.inp_bits)
        return np.full(elements, r["pad_value"], "<i4").view(np.uint8)

    def store(self, r):
        at = r["sram"]
        for z in range(r["z_size"]):
            for y in range(r["y_size"]):
                for x in range(r["x_size"]):
                    begin = (r["dram"] + z * r["z_stride"] + y * r["y_stride"]) * self.c.axi_bytes
                    begin += x * self.c.out_entry_bytes
                    self.dram[begin : begin + self.c.out_entry_bytes] = self.buffers[Buffer.OUT][at]
                    at += 1

    # --- buffers as numbers -----------------------------------------------------------------------

    def acc(self, index):
        return self.buffers[Buffer.ACC][index].view("<i4").reshape(self.c.batch, self.c.block_out)

    def inp(self, index):
        return unpack_elements(self.buffers[Buffer.INP][index], self.c.inp_bits).reshape(self.c.batch, self.c.block_in)

    def wgt(self, index):
        return unpack_elements(self.buffers[Buffer.WGT][index], self.c.wgt_bits).reshape(
            self.c.block_out, self.c.block_in
        )

    def inpv(self, index):
        size = self.c.batch * self.c.block_out * self.c.inp_bits // 8
        data = self.buffers[Buffer.INP].reshape(-1)[index * size : (index + 1) * size]
        return unpack_elements(data, self.c.inp_bits).reshape(self.c.batch, self.c.block_out)

    def wgtv(self, index):
        size = self.c.block_out * self.c.wgt_bits // 8
        data = self.buffers[Buffer.WGT].reshape(-1)[index * size : (index + 1) * size]
        return unpack_elements(data, self.c.wgt_bits)

    # --- loops ------------------------------------------------------------------------------------

    def iterations(self, r):
        uops = decode_uops(self.c, self.buffers[Buffer.UOP][r["uop_begin"] : r["uop_end"]])
        for i in range(r["loop0"]):
            for j in range(r["loop1"]):
                for u in uops:
                    off = u.acc + i * r["acc0"] + j * r["acc1"]
                    s = r["src"] + u.src + i * r["src0"] + j * r["src1"]
                    w = r["wgt"] + u.wgt + i * r["wgt0"] + j * r["wgt1"]
                    yield u, off, s, w, r["scl"] + i * r["scl0"] + j * r["scl1"]

    def gemm(self, r):
        for u, off, s, w, scale in self.iterations(r):
            old = 0 if r["init"] and u.first else self.acc(r["acc"] + off).astype(np.int64)
            new = wrap32(old + self.inp(s).astype(np.int64) @ self.wgt(w).astype(np.int64).T)
            self.acc(r["acc"] + off)[:] = new
            self.emit(r, u, off, scale, new)

    def vector(self, r):
        op = VectorOp(r["op"])
        for u, off, s, w, scale in self.iterations(r):
            x = 0
            if r["operand"] == Operand.SRC or op == VectorOp.MAC:
                x = self.inpv(s) if r["source"] == Source.INP else self.acc(s).copy()
            b = x if r["operand"] == Operand.SRC else r["imm"]
            if r["operand"] == Operand.WGT:
                b = self.wgtv(w)
            shape = (self.c.batch, self.c.block_out)
            if r["init"] and u.first:
                new = np.broadcast_to(vector_start(op, x, b), shape)
            else:
                new = np.broadcast_to(vector_op(op, self.acc(r["acc"] + off), x, b), shape)
            self.acc(r["acc"] + off)[:] = new
            self.emit(r, u, off, scale, new)

    def extended(self, r):
        """Steps of an extension, interpreted; a sum is added to the old value."""
        extension = self.extensions[r["extension"]]
        output = extension.output
        reduction = output.stage.reduction if output else None
        inputs = output is not None and extension.scopes[output.name] == "inp"
        for u, off, s, w, scale in self.iterations(r):
            old = self.acc(r["acc"] + off).astype(np.int32) if output and not inputs else None
            rows = self.rows_of(extension, {"acc": r["acc"] + off, "src": s, "wgt": w})
            placeholders = extension.behaviour.params[: -len(extension.updates) - (output is not None)]
            operands = {n: self.operand(r, extension, n, old, s, w, rows) for n in placeholders}
            found = interpret(extension.behaviour, operands)
            for state, tensor in extension.updates.items():
                self.state(state)[rows[state]] = found[tensor.name]
            if output is None:
                continue
            new = found[output.name]
            if inputs:
                self.buffers[Buffer.INP][r["acc"] + off] = pack_elements(new.reshape(-1), self.c.inp_bits)
                continue
            if reduction is not None and not (r["init"] and u.first):
                combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[reduction.reducer.name]
                new = wrap32(combine(old.astype(np.int64), new))
            self.acc(r["acc"] + off)[:] = new
            self.emit(r, u, off, scale, new)

    def state(self, state):
        return self.states.setdefault(state, np.zeros((state.rows, *state.shape), storage_dtype(state.dtype)))

    def rows_of(self, extension, indices):
        """The row of each state that is not read whole: at the next index that is free."""
        free = [*([] if extension.output else ["acc"]), "src", "wgt"]
        outputs = [extension.output.name] if extension.output else []
        scopes = [scope for name, scope in extension.scopes.items() if name not in outputs]
        taken = {"src"} if "inp" in scopes or scopes.count("acc") > bool(extension.in_place) else set()
        free = [index for index in free if index not in taken | ({"wgt"} if "wgt" in scopes else set())]
        buffers, rows = extension.behaviour.buffers, {}
        for name, state in extension.scopes.items():
            if isinstance(state, str) or buffers[name].shape == (state.rows, *state.shape) != tuple(state.shape):
                continue
            rows[state] = 0 if state.rows == 1 else indices[free.pop(0)]
        for state in extension.updates:
            if state not in rows:
                rows[state] = 0 if state.rows == 1 else indices[free.pop(0)]
        return rows

    def operand(self, r, extension, name, old, s, w, rows):
        buffer, scope = extension.behaviour.buffers[name], extension.scopes[name]
        if not isinstance(scope, str):
            return self.state(scope)[rows[scope]] if scope in rows else self.state(scope)
        match scope:
            case "immediate":
                return np.array([r[f"{extension.name}.{name}"]], buffer.dtype)
            case "acc":
                return old if name == extension.in_place else self.acc(s).astype(np.int32)
            case "inp" if buffer.shape == (self.c.batch, self.c.block_out):
                return self.inpv(s)
            case "inp":
                return self.group(Buffer.INP, s, buffer)
        return self.wgtv(w) if len(buffer.shape) == 1 else self.group(Buffer.WGT, w, buffer)

    def group(self, which, index, operand):
        """The packed bytes of consecutive entries as elements of the operand's type and shape."""
        bits = int(operand.dtype.removeprefix("int"))
        size = int(np.prod(operand.shape)) * bits // 8
        data = self.buffers[which].reshape(-1)[index * size : (index + 1) * size]
        return unpack_elements(data, bits).reshape(operand.shape)

    def emit(self, r, u, off, scale, new):
        if not u.last or r["emit"] == Emit.NONE:
            return
        if r["emit"] == Emit.RAW:
            size = self.c.acc_entry_bytes
            at = (r["out"] + off) * size
            self.buffers[Buffer.OUT].reshape(-1)[at : at + size] = new.astype("<i4").reshape(-1).view(np.uint8)
            return
        lanes = self.buffers[Buffer.SCL][scale].view("<u8")
        result = requantise(new, lanes, r["zero_point"], r["clip_lo"], r["clip_hi"], self.c.out_bits)
        if r["emit"] == StagedEmit.STAGE:
            result = self.staged(result)
        self.buffers[Buffer.OUT][r["out"] + off] = pack_elements(result.reshape(-1), self.c.out_bits)

    def staged(self, result):
        """Results behind the stage, interpreted."""
        scopes = self.stage.scopes
        operands = {name: self.state(scope) for name, scope in scopes.items() if not isinstance(scope, str)}
        operands[self.stage.operand] = result.reshape(self.c.batch, -1).astype(storage_dtype(self.c.out_dtype))
        return interpret(self.stage.behaviour, operands)[self.stage.output.name]
