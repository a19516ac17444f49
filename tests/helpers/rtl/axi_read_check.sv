// SPDX-License-Identifier: Apache-2.0
// Checks the read channels of an AXI4 bus, both sides of it: the rules of the standard, and the narrower ones that the
// machine promises (whole beats, incrementing bursts of limited length, never across 4 KiB, a bound on what is
// outstanding).
//
// Contract: broken_o has a bit for each rule that this cycle breaks, by rule_e. With Stop the first broken rule ends the
// simulation with its name. Bursts of different identifiers may be answered in any order, also interleaved.

module axi_read_check #(
  parameter int unsigned AddrBits = 40,
  parameter int unsigned DataBits = 64,
  parameter int unsigned IdBits = 2,
  parameter int unsigned Ids = 3,
  parameter int unsigned MostBeats = 256,
  parameter bit Stop = 1'b1,
  localparam int unsigned Rules = 10
) (
  input logic                clk_i,
  input logic                rst_ni,
  input logic [         8:0] limit_i,  // bursts outstanding, at most
  input logic [  IdBits-1:0] arid_i,
  input logic [AddrBits-1:0] araddr_i,
  input logic [         7:0] arlen_i,
  input logic [         2:0] arsize_i,
  input logic [         1:0] arburst_i,
  input logic                arvalid_i,
  input logic                arready_i,
  input logic [  IdBits-1:0] rid_i,
  input logic [DataBits-1:0] rdata_i,
  input logic [         1:0] rresp_i,
  input logic                rlast_i,
  input logic                rvalid_i,
  input logic                rready_i,
  output logic [  Rules-1:0] broken_o
);

  typedef enum int unsigned {
    AddressStaysOffered = 0,
    AddressIsStable     = 1,
    BurstIsWhole        = 2,  // incrementing, full beats, aligned
    BurstInPage         = 3,
    BurstIsShort        = 4,
    IdIsKnown           = 5,
    LimitIsKept         = 6,
    BeatIsStable        = 7,
    BeatWasRequested    = 8,
    LastIsLast          = 9
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
    logic [  IdBits-1:0] id;
    logic [DataBits-1:0] data;
    logic [         1:0] resp;
    logic                last;
  } beat_t;

  address_t address, address_q;
  beat_t    beat, beat_q;
  logic     address_waits_q, beat_waits_q;
  logic     known, owed;

  // For each identifier the lengths of its bursts that are not answered, and the beats its oldest one has had.
  logic [7:0] len_q  [2**IdBits][Slots];
  int unsigned asked_q[2**IdBits];
  int unsigned done_q [2**IdBits];
  logic [7:0] beats_q[2**IdBits];
  int unsigned outstanding_q;

  assign address = '{id: arid_i, addr: araddr_i, len: arlen_i, size: arsize_i, burst: arburst_i};
  assign beat = '{id: rid_i, data: rdata_i, resp: rresp_i, last: rlast_i};
  assign known = 32'(arid_i) < Ids;
  assign owed = asked_q[rid_i] != done_q[rid_i];

  always_comb begin
    broken_o = '0;
    broken_o[AddressStaysOffered] = address_waits_q && !arvalid_i;
    broken_o[AddressIsStable] = address_waits_q && arvalid_i && address != address_q;
    if (arvalid_i) begin
      broken_o[BurstIsWhole] = arburst_i != 2'b01 || 32'(arsize_i) != $clog2(Bytes)
          || araddr_i % AddrBits'(Bytes) != '0;
      broken_o[BurstInPage] = 32'(araddr_i[11:0]) + (32'(arlen_i) + 1) * Bytes > 4096;
      broken_o[BurstIsShort] = 32'(arlen_i) >= MostBeats;
      broken_o[IdIsKnown] = !known;
      broken_o[LimitIsKept] = !address_waits_q && outstanding_q >= 32'(limit_i);
    end
    broken_o[BeatIsStable] = beat_waits_q && (!rvalid_i || beat != beat_q);
    if (rvalid_i) begin
      broken_o[BeatWasRequested] = !owed;
      broken_o[LastIsLast] = owed && rlast_i != (beats_q[rid_i] == len_q[rid_i][done_q[rid_i] % Slots]);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      address_waits_q <= 1'b0;
      beat_waits_q    <= 1'b0;
      outstanding_q   <= 0;
      asked_q         <= '{default: 0};
      done_q          <= '{default: 0};
      beats_q         <= '{default: '0};
    end else begin
      address_waits_q <= arvalid_i && !arready_i;
      beat_waits_q    <= rvalid_i && !rready_i;
      outstanding_q   <= outstanding_q + 32'(arvalid_i && arready_i)
          - 32'(rvalid_i && rready_i && rlast_i);
      if (arvalid_i && arready_i) asked_q[arid_i] <= asked_q[arid_i] + 1;
      if (rvalid_i && rready_i) begin
        beats_q[rid_i] <= rlast_i ? '0 : beats_q[rid_i] + 1'b1;
        if (rlast_i) done_q[rid_i] <= done_q[rid_i] + 1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    address_q <= address;
    beat_q    <= beat;
    if (arvalid_i && arready_i) len_q[arid_i][asked_q[arid_i] % Slots] <= arlen_i;
  end

  // No rule is broken; the first that is has its name in the message.
  if (Stop) begin : gen_stop
    for (genvar i = 0; i < Rules; i++) begin : gen_rule
      localparam rule_e Rule = rule_e'(i);
      RuleHolds_A: assert property (@(posedge clk_i) disable iff (!rst_ni) !broken_o[i])
      else $error("axi_read_check: %s", Rule.name());
    end
  end

endmodule
