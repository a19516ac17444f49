// SPDX-License-Identifier: Apache-2.0
// Checks the write channels of an AXI4 bus, both sides of it: the rules of the standard, and the narrower ones that the
// machine promises (whole beats, incrementing bursts of limited length, never across 4 KiB, data never before their
// address is offered, a bound on the bursts that await their response).
//
// Contract: broken_o has a bit for each rule that this cycle breaks, by rule_e. With Stop the first broken rule ends the
// simulation with its name. A burst is outstanding from its first beat until its response.

module axi_write_check #(
  parameter int unsigned AddrBits = 40,
  parameter int unsigned DataBits = 64,
  parameter int unsigned IdBits = 2,
  parameter int unsigned MostBeats = 256,
  parameter bit Stop = 1'b1,
  localparam int unsigned Rules = 11
) (
  input logic                  clk_i,
  input logic                  rst_ni,
  input logic [           8:0] limit_i,  // bursts that await their response, at most
  input logic [    IdBits-1:0] awid_i,
  input logic [  AddrBits-1:0] awaddr_i,
  input logic [           7:0] awlen_i,
  input logic [           2:0] awsize_i,
  input logic [           1:0] awburst_i,
  input logic                  awvalid_i,
  input logic                  awready_i,
  input logic [  DataBits-1:0] wdata_i,
  input logic [DataBits/8-1:0] wstrb_i,
  input logic                  wlast_i,
  input logic                  wvalid_i,
  input logic                  wready_i,
  input logic [    IdBits-1:0] bid_i,
  input logic [           1:0] bresp_i,
  input logic                  bvalid_i,
  input logic                  bready_i,
  output logic [    Rules-1:0] broken_o
);

  typedef enum int unsigned {
    AddressStaysOffered  = 0,
    AddressIsStable      = 1,
    BurstIsWhole         = 2,  // incrementing, full beats, aligned, identifier 0
    BurstInPage          = 3,
    BurstIsShort         = 4,
    BeatIsStable         = 5,
    BeatHasAddress       = 6,
    BeatIsFull           = 7,
    LastIsLast           = 8,
    LimitIsKept          = 9,
    ResponseWasRequested = 10  // and stays offered, unchanged
  } rule_e;

  localparam int unsigned Bytes = DataBits / 8;
  localparam int unsigned Slots = 512;

  typedef struct packed {
    logic [  IdBits-1:0] id;
    logic [AddrBits-1:0] addr;
    logic [         7:0] len;
    logic [         2:0] size;
    logic [         1:0] burst;
  } address_t;

  typedef struct packed {
    logic [  DataBits-1:0] data;
    logic [DataBits/8-1:0] strb;
    logic                  last;
  } beat_t;

  address_t address, address_q;
  beat_t    beat, beat_q;
  logic [IdBits+1:0] response, response_q;
  logic address_waits_q, beat_waits_q, response_waits_q;
  logic presents, has_address;
  logic [7:0] len, beats_q, len_q[Slots];

  // Bursts by number: whose address was offered, was taken, whose data are complete, that were answered.
  int unsigned offered_q, taken_q, written_q, answered_q;

  assign address = '{id: awid_i, addr: awaddr_i, len: awlen_i, size: awsize_i, burst: awburst_i};
  assign beat = '{data: wdata_i, strb: wstrb_i, last: wlast_i};
  assign response = {bid_i, bresp_i};
  assign presents = awvalid_i && !address_waits_q;
  assign has_address = written_q < offered_q || presents;
  assign len = written_q < offered_q ? len_q[written_q % Slots] : awlen_i;

  always_comb begin
    broken_o = '0;
    broken_o[AddressStaysOffered] = address_waits_q && !awvalid_i;
    broken_o[AddressIsStable] = address_waits_q && awvalid_i && address != address_q;
    if (awvalid_i) begin
      broken_o[BurstIsWhole] = awburst_i != 2'b01 || 32'(awsize_i) != $clog2(Bytes)
          || awaddr_i % AddrBits'(Bytes) != '0 || awid_i != '0;
      broken_o[BurstInPage] = 32'(awaddr_i[11:0]) + (32'(awlen_i) + 1) * Bytes > 4096;
      broken_o[BurstIsShort] = 32'(awlen_i) >= MostBeats;
    end
    broken_o[BeatIsStable] = beat_waits_q && (!wvalid_i || beat != beat_q);
    if (wvalid_i) begin
      broken_o[BeatHasAddress] = !has_address;
      broken_o[BeatIsFull] = !(&wstrb_i);
      broken_o[LastIsLast] = has_address && wlast_i != (beats_q == len);
      broken_o[LimitIsKept] = beats_q == '0 && !beat_waits_q
          && written_q - answered_q >= 32'(limit_i);
    end
    broken_o[ResponseWasRequested] = response_waits_q && (!bvalid_i || response != response_q)
        || bvalid_i && (answered_q >= taken_q || answered_q >= written_q || bid_i != '0);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      address_waits_q  <= 1'b0;
      beat_waits_q     <= 1'b0;
      response_waits_q <= 1'b0;
      beats_q          <= '0;
      offered_q        <= 0;
      taken_q          <= 0;
      written_q        <= 0;
      answered_q       <= 0;
    end else begin
      address_waits_q  <= awvalid_i && !awready_i;
      beat_waits_q     <= wvalid_i && !wready_i;
      response_waits_q <= bvalid_i && !bready_i;
      offered_q        <= offered_q + 32'(presents);
      taken_q          <= taken_q + 32'(awvalid_i && awready_i);
      if (wvalid_i && wready_i) begin
        beats_q   <= wlast_i ? '0 : beats_q + 1'b1;
        written_q <= written_q + 32'(wlast_i);
      end
      answered_q <= answered_q + 32'(bvalid_i && bready_i);
    end
  end

  always_ff @(posedge clk_i) begin
    address_q  <= address;
    beat_q     <= beat;
    response_q <= response;
    if (presents) len_q[offered_q % Slots] <= awlen_i;
  end

  // No rule is broken; the first that is has its name in the message.
  if (Stop) begin : gen_stop
    for (genvar i = 0; i < Rules; i++) begin : gen_rule
      localparam rule_e Rule = rule_e'(i);
      RuleHolds_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !broken_o[i])
      else $error("axi_write_check: %s", Rule.name());
    end
  end

endmodule
