// Selects a part of a wide memory word by the low bits of an index.
//
// Contract: part_o belongs to the index of the last cycle with re_i, like the word of a vdla_ram
// read with it.

`default_nettype none

module vdla_select #(
  parameter int unsigned PartBits = 8,
  parameter int unsigned Parts = 4,
  parameter int unsigned IndexBits = 8  // at least $clog2(Parts)
) (
  input  logic                      clk_i,
  input  logic                      re_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [     IndexBits-1:0] index_i,  // the upper bits are the address of the word
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Parts*PartBits-1:0] word_i,
  output logic [      PartBits-1:0] part_o
);

  if (Parts == 1) begin : gen_whole
    // verilator lint_off UNUSEDSIGNAL
    logic unused;
    // verilator lint_on UNUSEDSIGNAL
    assign unused = clk_i ^ re_i ^ (^index_i);
    assign part_o = word_i;
  end else begin : gen_part
    logic [$clog2(Parts)-1:0] part_q;

    always_ff @(posedge clk_i) begin
      if (re_i) part_q <= $bits(part_q)'(index_i);
    end

    assign part_o = word_i[32'(part_q)*PartBits+:PartBits];
  end

endmodule

`default_nettype wire
