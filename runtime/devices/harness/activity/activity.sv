// SPDX-License-Identifier: Apache-2.0
// Counters of events beside the design, bound to its modules in a model that is built for them.
// activity.vlt makes them readable: an array each, in the scope of its instance.

`default_nettype none

// Of a memory: [0] reads, [k] writes of k lanes, [Lanes + 1] the bits of a lane.
module activity_of_ram #(
  parameter int unsigned Lanes = 1,
  parameter int unsigned LaneBits = 1
) (
  input logic             clk_i,
  input logic             re_i,
  input logic [Lanes-1:0] we_i
);

  longint unsigned counts[Lanes+2];

  initial begin
    for (int unsigned k = 0; k <= Lanes; k++) counts[k] = 0;
    counts[Lanes+1] = longint'(LaneBits);
  end

  always @(posedge clk_i) begin
    if (re_i) counts[0] = counts[0] + 1;
    if (|we_i) counts[$countones(we_i)] = counts[$countones(we_i)] + 1;
  end

endmodule

// Of the pipeline: matrix products, passes that write a sum, products of the vector unit.
module activity_of_pipeline (
  input logic clk_i,
  input logic gemm_i,
  input logic pass_i,
  input logic product_i
);

  longint unsigned counts[3];

  initial for (int unsigned k = 0; k < 3; k++) counts[k] = 0;

  always @(posedge clk_i) begin
    if (gemm_i) counts[0] = counts[0] + 1;
    if (pass_i) counts[1] = counts[1] + 1;
    if (product_i) counts[2] = counts[2] + 1;
  end

endmodule

// Of what leaves the pipeline: results, those of them that pass a stage.
module activity_of_emit (
  input logic clk_i,
  input logic requantise_i,
  input logic stage_i
);

  longint unsigned counts[2];

  initial for (int unsigned k = 0; k < 2; k++) counts[k] = 0;

  always @(posedge clk_i) begin
    if (requantise_i) counts[0] = counts[0] + 1;
    if (stage_i) counts[1] = counts[1] + 1;
  end

endmodule

// Of the datapaths of extensions: steps by number.
module activity_of_steps #(
  parameter int unsigned NumberBits = 4
) (
  input logic       clk_i,
  input logic       valid_i,
  input logic [NumberBits-1:0] number_i
);

  longint unsigned counts[1 << NumberBits];

  initial for (int unsigned k = 0; k < 1 << NumberBits; k++) counts[k] = 0;

  always @(posedge clk_i) if (valid_i) counts[number_i] = counts[number_i] + 1;

endmodule

bind vdla_ram activity_of_ram #(
  .Lanes   (Lanes),
  .LaneBits(LaneBits)
) u_activity (
  .clk_i(clk_i),
  .re_i (re_i),
  .we_i (we_i)
);

bind vdla_pipeline activity_of_pipeline u_activity (
  .clk_i    (clk_i),
  .gemm_i   (gemm_reads),
  .pass_i   (valid_i.execute),
  .product_i(valid_i.execute && slot_i.alu.multiply)
);

bind vdla_emit activity_of_emit u_activity (
  .clk_i       (clk_i),
  .requantise_i(emits_q[OutDelay] && !raw_q[OutDelay]),
  .stage_i     (stage_valid_o)
);

`ifdef VDLA_EXTENSIONS
bind vdla_pipeline activity_of_steps #(
  .NumberBits($bits(vdla_ext_pkg::ext_number_t))
) u_steps (
  .clk_i   (clk_i),
  .valid_i (pass.reads),
  .number_i(pass.step.number)
);
`endif

`default_nettype wire
