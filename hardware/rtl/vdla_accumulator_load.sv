// SPDX-License-Identifier: Apache-2.0
// The writes of loads into the accumulator: beats, beats of narrow elements to widen, and padding.
//
// Contract: a write is any buffer_write_t, those to other buffers are ignored. The enables and data
// of the entry's beats are valid a cycle later. One write per cycle. No register has a reset: what a
// buffer holds after a reset is undefined, and no write is on its way when the next run starts.

`default_nettype none

module vdla_accumulator_load
  import vdla_pkg::*, vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    write_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  buffer_write_t           write_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic [    AccBeats-1:0] we_o,
  output logic [AccIndexBits-1:0] index_o,
  output logic [AccEntryBits-1:0] data_o
);

  // A widened beat fills a group of beats; all groups of an entry get the same data.
  localparam int unsigned GroupBeats = 32 / InpBits;
  localparam int unsigned Elements = AxiBits / InpBits;
  localparam int unsigned Groups = AccBeats / GroupBeats;

  logic [AccBeats-1:0] we;
  logic [Elements-1:0][31:0] group, group_q;

  always_comb begin
    for (int unsigned k = 0; k < AccBeats; k++) begin
      we[k] = write_valid_i && write_i.buffer == BufAcc && (write_i.fill
          || 32'(write_i.beat) == (write_i.widen ? k / GroupBeats : k));
    end
    for (int unsigned k = 0; k < Elements; k++) begin
      group[k] = write_i.data[k%(AxiBits/32)*32+:32];
      if (write_i.widen) begin
        group[k] = 32'(signed'(write_i.data[k*InpBits+:InpBits]));
      end
      if (write_i.fill) group[k] = write_i.pad_value;
    end
  end

  always_ff @(posedge clk_i) begin
    group_q <= group;
    index_o <= AccIndexBits'(write_i.index);
    we_o    <= we;
  end

  assign data_o = {Groups{group_q}};

`ifndef SYNTHESIS
  // A write is of a beat, of the beats of a widened one, or of the whole entry.
  Beats_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      write_valid_i && write_i.buffer == BufAcc
      |-> $countones(we) == (write_i.fill ? AccBeats : write_i.widen ? GroupBeats : 1));
  InRange_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      write_valid_i && write_i.buffer == BufAcc |-> 32'(write_i.index) < AccDepth);
  // Padding follows a widened beat directly.
  FillAfterWiden_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      $past(write_valid_i && write_i.widen && !write_i.fill) && write_valid_i && write_i.fill);
`endif

endmodule

`default_nettype wire
