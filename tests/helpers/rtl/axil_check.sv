// SPDX-License-Identifier: Apache-2.0
// Checks an AXI4-Lite bus, both sides of it: what is offered stays offered and unchanged until it is taken, and nothing
// is answered that was not asked.
//
// Contract: broken_o has a bit for each rule that this cycle breaks, by rule_e. With Stop the first broken rule ends the
// simulation with its name.

module axil_check #(
  parameter int unsigned AddrBits = 12,
  parameter bit Stop = 1'b1,
  localparam int unsigned Rules = 7
) (
  input logic                clk_i,
  input logic                rst_ni,
  input logic [AddrBits-1:0] awaddr_i,
  input logic                awvalid_i,
  input logic                awready_i,
  input logic [        31:0] wdata_i,
  input logic [         3:0] wstrb_i,
  input logic                wvalid_i,
  input logic                wready_i,
  input logic [         1:0] bresp_i,
  input logic                bvalid_i,
  input logic                bready_i,
  input logic [AddrBits-1:0] araddr_i,
  input logic                arvalid_i,
  input logic                arready_i,
  input logic [        31:0] rdata_i,
  input logic [         1:0] rresp_i,
  input logic                rvalid_i,
  input logic                rready_i,
  output logic [  Rules-1:0] broken_o
);

  typedef enum int unsigned {
    WriteAddressIsStable  = 0,
    WriteDataIsStable     = 1,
    WriteResponseIsStable = 2,
    ReadAddressIsStable   = 3,
    ReadDataIsStable      = 4,
    WriteWasRequested     = 5,
    ReadWasRequested      = 6
  } rule_e;

  localparam int unsigned Channels = 5;

  // The five channels in the order of the first five rules, widened to one width.
  logic [Channels-1:0] valid, waits_q;
  logic [Channels-1:0][AddrBits+36-1:0] payload, payload_q;

  // Of each kind how many transfers there were, beyond those that were answered.
  int unsigned addresses_q, data_q, reads_q;

  assign valid = {rvalid_i, arvalid_i, bvalid_i, wvalid_i, awvalid_i};

  always_comb begin
    payload = '0;
    payload[0][AddrBits-1:0] = awaddr_i;
    payload[1][35:0] = {wdata_i, wstrb_i};
    payload[2][1:0] = bresp_i;
    payload[3][AddrBits-1:0] = araddr_i;
    payload[4][33:0] = {rdata_i, rresp_i};
  end

  always_comb begin
    broken_o = '0;
    for (int unsigned i = 0; i < Channels; i++) begin
      broken_o[i] = waits_q[i] && (!valid[i] || payload[i] != payload_q[i]);
    end
    broken_o[WriteWasRequested] = bvalid_i && (addresses_q == 0 || data_q == 0);
    broken_o[ReadWasRequested] = rvalid_i && reads_q == 0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      waits_q     <= '0;
      addresses_q <= 0;
      data_q      <= 0;
      reads_q     <= 0;
    end else begin
      waits_q     <= valid & ~{rready_i, arready_i, bready_i, wready_i, awready_i};
      addresses_q <= addresses_q + 32'(awvalid_i && awready_i) - 32'(bvalid_i && bready_i);
      data_q      <= data_q + 32'(wvalid_i && wready_i) - 32'(bvalid_i && bready_i);
      reads_q     <= reads_q + 32'(arvalid_i && arready_i) - 32'(rvalid_i && rready_i);
    end
  end

  always_ff @(posedge clk_i) payload_q <= payload;

  // No rule is broken; the first that is has its name in the message.
  if (Stop) begin : gen_stop
    for (genvar i = 0; i < Rules; i++) begin : gen_rule
      localparam rule_e Rule = rule_e'(i);
      RuleHolds_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !broken_o[i])
      else $error("axil_check: %s", Rule.name());
    end
  end

endmodule
