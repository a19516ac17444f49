# SPDX-License-Identifier: Apache-2.0
"""Squares of entries transposed, so that results of one product are the second factor of another.

What it computes is `definitions.second_factor`. A step puts an entry into one of two squares, row
by row, and takes a column of the other, which the steps before have filled. Factors that are read
by rows are copied without it, with zeros behind the last row.

On a machine with a batch an entry has several rows, and a step takes as many columns. It may put
the first row alone into the square, as entries of one token have no other, and take rows instead.
"""

import vdla
from vdla import te
from vdla.isa import Buffer, Emit, Load, MicroOp, Operand, PlugInField, Source, Store, Vector, VectorOp, isa_of

DATAPATH = """
// Contract: a step a cycle, whose column is out two cycles later.

module ext_transpose
  import vdla_pkg::*;
#(
  localparam int unsigned RowBits = $clog2(BlockOut)
) (
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic transpose_begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic transpose_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] transpose_src_i,
  input  logic transpose_clear_valid_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] transpose_result_o
);

  logic [1:0][BlockOut-1:0][BlockOut-1:0][InpBits-1:0] square_q;
  logic [RowBits-1:0] row_q, column_q;
  logic half_q, other_q;

  always_ff @(posedge clk_i) begin
    if (transpose_clear_valid_i) begin
      square_q <= '0;
      row_q <= '0;
      half_q <= 1'b0;
    end else if (transpose_valid_i) begin
      square_q[half_q][row_q] <= transpose_src_i[0];
      row_q <= row_q + 1'b1;
      half_q <= half_q ^ (row_q == '1);
    end
    column_q <= row_q;
    other_q <= !half_q;
  end

  // The other square does not change before its last column is out, a cycle after its step, unless
  // the squares are cleared, which no instruction does so soon.
  for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
    always_ff @(posedge clk_i) begin
      transpose_result_o[0][o] <= 32'($signed(square_q[other_q][o][column_q]));
    end
  end

endmodule
"""

DATAPATH_OF_SEVERAL = """
// Contract: a step a cycle, whose columns or rows are out two cycles later.

module ext_transpose
  import vdla_pkg::*;
#(
  localparam int unsigned RowBits = $clog2(BlockOut)
) (
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic transpose_begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic transpose_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] transpose_src_i,
  input  logic transpose_alone_i,
  input  logic transpose_by_rows_i,
  input  logic transpose_clear_valid_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] transpose_result_o
);

  logic [1:0][BlockOut-1:0][BlockOut-1:0][InpBits-1:0] square_q;
  logic [RowBits-1:0] row_q, first, first_q;
  logic [RowBits:0] next;
  logic half_q, other_q, by_rows_q;

  assign first = row_q & RowBits'(BlockOut - Batch);
  assign next = {1'b0, row_q} + (transpose_alone_i ? (RowBits + 1)'(1) : (RowBits + 1)'(Batch));

  always_ff @(posedge clk_i) begin
    if (transpose_clear_valid_i) begin
      square_q <= '0;
      row_q <= '0;
      half_q <= 1'b0;
    end else if (transpose_valid_i) begin
      for (int unsigned r = 0; r < BlockOut; r++) begin
        if (transpose_alone_i ? row_q == RowBits'(r) : first == RowBits'(r & (BlockOut - Batch))) begin
          square_q[half_q][r] <= transpose_src_i[transpose_alone_i ? 0 : r % Batch];
        end
      end
      row_q <= next[RowBits-1:0];
      half_q <= half_q ^ next[RowBits];
    end
    first_q <= first;
    other_q <= !half_q;
    by_rows_q <= transpose_by_rows_i;
  end

  // The other square does not change before the last of it is out, a cycle after its step, unless
  // the squares are cleared, which no instruction does so soon.
  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    logic [RowBits-1:0] place;

    assign place = first_q | RowBits'(b);
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      always_ff @(posedge clk_i) begin
        transpose_result_o[b][o] <= 32'($signed(
            by_rows_q ? square_q[other_q][place][o] : square_q[other_q][o][place]));
      end
    end
  end

endmodule
"""


def declare(config):
    if config.block_out % config.batch:
        raise ValueError(f"batch must divide block_out, the rows of a square, {config.block_out}, got {config.batch}")
    entry, lanes = (config.batch, config.block_out), config.block_out
    squares = vdla.State("squares", rows=1, shape=(2, lanes, lanes), dtype=config.inp_dtype)
    position = vdla.State("square_position", rows=1, shape=(2,), dtype="int32")
    x, held = te.placeholder(entry, config.inp_dtype, "x"), te.placeholder(squares.shape, config.inp_dtype, "held")
    at = te.placeholder((2,), "int32", "at")

    def column(b, o):
        return te.cast("int32", held[1 - (at[1] & 1), o, at[0] & (lanes - 1)])

    def filled(h, r, c):
        is_here = te.all_of(h <= at[1], h >= at[1], r <= at[0], r >= at[0])
        return te.select(is_here, x[0, c], held[h, r, c])

    def moved(i):
        return te.select(i < 1, (at[0] + 1) & (lanes - 1), (at[1] ^ te.cast("int32", at[0] >= lanes - 1)) & 1)

    text, fields, immediates = DATAPATH, [], {}
    if config.batch > 1:
        column, filled, moved, immediates = of_several(config, x, held, at)
        text = DATAPATH_OF_SEVERAL
        fields = [
            PlugInField("alone", 1, "The first row of the entry alone is put into the square."),
            PlugInField("by_rows", 1, "Rows of the other square are taken in place of columns."),
        ]
    return [
        vdla.Extension(
            name="transpose",
            doc="Puts an entry into a square and takes a column of the other one.",
            output=te.compute(entry, column, "acc"),
            scopes={"x": "inp", "held": squares, "at": position, **immediates, "acc": "acc"},
            updates={
                squares: te.compute(squares.shape, filled, "filled"),
                position: te.compute((2,), moved, "moved"),
            },
            fields=fields,
            latency=2,
            datapath=text,
            program=program,
        ),
        vdla.Extension(
            name="transpose_clear",
            doc="Clears both squares, and begins with the first row of one.",
            scopes={},
            updates={
                squares: te.compute(squares.shape, lambda *i: te.const(0, config.inp_dtype), "no_squares"),
                position: te.compute((2,), lambda i: te.const(0, "int32"), "first"),
            },
        ),
    ]


def of_several(config, x, held, at):
    """What a step computes of entries with several rows: columns, squares and position, and the
    scopes of its fields.
    """
    batch, lanes = config.batch, config.block_out
    alone, by_rows = (te.placeholder((1,), "int32", name) for name in ("alone", "by_rows"))
    count = te.select(alone[0] > 0, te.const(1, "int32"), batch)

    def column(b, o):
        half, place = 1 - (at[1] & 1), (at[0] & (lanes - batch)) + b
        return te.cast("int32", te.select(by_rows[0] > 0, held[half, place, o], held[half, o, place]))

    def filled(h, r, c):
        first = te.select(alone[0] > 0, at[0], at[0] & (lanes - batch))
        is_here = te.all_of(h <= at[1], h >= at[1], r >= first, r < first + count)
        return te.select(is_here, x[te.select(alone[0] > 0, 0, r & (batch - 1)), c], held[h, r, c])

    def moved(i):
        after = at[0] + count
        return te.select(i < 1, after & (lanes - 1), (at[1] ^ te.cast("int32", after >= lanes)) & 1)

    return column, filled, moved, {"alone": "immediate", "by_rows": "immediate"}


def program(layer, config):
    """The program of a `second_factor`; a LayerError says why there is none."""
    layer.require("second_factor")
    if config.batch != 1:
        raise vdla.LayerError(f"batch must be 1, as a line has rows of one image, got {config.batch}")
    if config.block_in != config.block_out or config.inp_bits != config.wgt_bits:
        got = f"{config.inp_dtype} x {config.block_in} and {config.wgt_dtype} x {config.block_out}"
        raise vdla.LayerError(f"entries of inputs must have the rows of weights, got {got}")
    return Factor(layer, config).program()


class Factor:
    """Lines are the rows of a block of columns, with zeros up to whole squares. As many lines as
    fit are in one half of the buffers; the steps of the last squares come after all others.
    """

    def __init__(self, layer, config):
        self.config, self.lanes, self.layer = config, config.block_out, layer
        self.matrices, self.rows, self.columns = layer.inputs[0].shape
        self.blocks, self.squares = -(-self.columns // self.lanes), -(-self.rows // self.lanes)
        self.line = self.squares * self.lanes
        self.room = min(config.inp_depth, config.acc_depth, config.out_depth) // 2
        self.many = min((self.room - self.lanes) // self.line, self.matrices * self.blocks)
        if self.many < 1:
            raise vdla.LayerError(f"a line must fit half of a buffer, {self.room} entries, got {self.line}")
        lines = self.matrices * self.blocks
        self.strips = [(first, min(self.many, lines - first)) for first in range(0, lines, self.many)]
        self.builder = vdla.ProgramBuilder(config, "second_factor")
        self.by_rows = layer.options["transposed"]
        self.turn, self.clear = (isa_of(config).format_named(name).cls for name in ("transpose", "transpose_clear"))

    def program(self):
        """Each strip is loaded while the one before is computed."""
        builder, plain = self.builder, self.tensors()
        builder.add([Load(Buffer.SCL, x_size=1)], "scales")
        builder.load_micro_ops([MicroOp(first=1, last=1)])
        if not self.by_rows:
            builder.add([self.clear(uop_end=1)])
        for number in range(len(self.strips) + 1):
            if number < len(self.strips):
                self.load(number)
            if number:
                self.compute(number - 1)
        return builder.finished(plain)

    def tensors(self):
        """Elements in blocks of columns, as other layers have them, and the factor in entries of
        weights.
        """
        (data, scale), lanes = self.layer.inputs, self.lanes

        def element(m, c, r, b, o):
            return te.select(c * lanes + o < self.columns, data[m, r, c * lanes + o], 0)

        self.builder.input(te.compute((self.matrices, self.blocks, self.rows, 1, lanes), element, "elements"))
        self.builder.input(te.compute((1, lanes), lambda _, o: scale[o * 0], "scales"), "weight")
        deep, wide = (self.blocks, self.squares) if self.by_rows else (self.squares, self.blocks)
        results = self.builder.output("results", (self.matrices, deep, wide, lanes, lanes))

        def plain(m, k, n):
            return results[m, k // lanes, n // lanes, n % lanes, k % lanes]

        return te.compute(self.layer.output.shape, plain, "plain")

    def load(self, number):
        first, many = self.strips[number]
        beats = self.config.entry_bytes[Buffer.INP] // self.config.axi_bytes
        rows = {"y_size": many, "y_stride": self.rows * beats, "x_size": self.rows, "x_after": self.line - self.rows}
        load = Load(Buffer.INP, sram=number % 2 * self.room, dram=first * self.rows * beats, **rows)
        waits = ["compute"] if number >= 2 else []  # the strip before the last had this half
        self.builder.add([load], "elements", waits=waits, signals=["compute"])

    def compute(self, number):
        (first, many), base = self.strips[number], number % 2 * self.room
        before, later = ["store"] * (number >= 2), number + 2 < len(self.strips)
        emit = {"emit": Emit.REQUANT, "clip_lo": -128, "clip_hi": 127, "uop_end": 1}
        beats, stored = self.config.entry_bytes[Buffer.OUT] // self.config.axi_bytes, many * self.line
        if self.by_rows:
            places = {"src": base, "src0": 1, "acc": base, "acc0": 1, "out": base, "loop0": stored}
            steps = [Vector(VectorOp.MOV, Operand.SRC, Source.INP, init=1, **places, **emit)]
            stores = [Store(sram=base, dram=first * self.line * beats, x_size=stored)]
        else:
            last = base + stored
            places = {"src0": self.lanes, "src1": 1, "acc0": self.lanes, "acc1": 1, "loop1": self.lanes, **emit}
            steps = [
                self.turn(src=base, acc=base, out=base, loop0=many * self.squares, **places),
                self.turn(src=base, acc=last, out=last, loop0=1, **places),
            ]
            stores = [self.store_line(first + line, base + self.lanes + line * self.line) for line in range(many)]
        self.builder.add(steps, waits=["load", *before], signals=[*(["load"] * later), "store"])
        self.builder.add(stores, "results", waits=["compute"], signals=["compute"] * later)

    def store_line(self, number, sram):
        """The squares of a line, each behind the same one of the block before."""
        matrix, block = divmod(number, self.blocks)
        beats = self.config.entry_bytes[Buffer.OUT] // self.config.axi_bytes
        dram = (matrix * self.squares * self.blocks + block) * self.lanes * beats
        rows = {"y_size": self.squares, "y_stride": self.blocks * self.lanes * beats, "x_size": self.lanes}
        return Store(sram=sram, dram=dram, **rows)
