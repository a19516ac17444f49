// SPDX-License-Identifier: Apache-2.0
// One of several read ports: offers the addresses of its bursts and assembles what it receives into
// beats of the machine.
//
// Contract: a burst is taken with burst_valid_i && burst_ready_o; its address is at the port from
// the next cycle until it is accepted. AxiPorts beats of the port are one of the machine, the first
// of them its lowest bits; it is an error if one of them is. A beat is given with beat_valid_o &&
// beat_pop_i, two cycles after its last part was at the port at the earliest. Parts are always
// accepted: no more than PortBursts bursts may be taken whose last beats are not given. One burst
// and one part per cycle.

`default_nettype none

module vdla_read_port
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic       clk_i,
  input  logic       rst_ni,
  // Bursts.
  input  logic       burst_valid_i,
  output logic       burst_ready_o,
  input  burst_t     burst_i,
  // The port.
  output addr_t      m_axi_araddr_o,
  output logic [7:0] m_axi_arlen_o,
  output logic       m_axi_arvalid_o,
  input  logic       m_axi_arready_i,
  input  port_beat_t m_axi_rdata_i,
  input  logic [1:0] m_axi_rresp_i,
  input  logic       m_axi_rlast_i,
  input  logic       m_axi_rvalid_i,
  // Beats of the machine.
  output logic       beat_valid_o,
  output beat_t      beat_data_o,
  output logic       beat_last_o,
  output logic       beat_error_o,
  input  logic       beat_pop_i
);

  localparam int unsigned PartBits = AxiPorts > 1 ? $clog2(AxiPorts) : 1;

  typedef struct packed {
    logic  error;
    logic  last;
    beat_t data;
  } item_t;

  // --- addresses

  burst_t presented;

  vdla_slice #(
    .T(burst_t)
  ) u_addresses (
    .clk_i,
    .rst_ni,
    .in_valid_i (burst_valid_i),
    .in_ready_o (burst_ready_o),
    .in_data_i  (burst_i),
    .out_valid_o(m_axi_arvalid_o),
    .out_ready_i(m_axi_arready_i),
    .out_data_o (presented)
  );

  assign m_axi_araddr_o = presented.addr;
  assign m_axi_arlen_o  = 8'(AxiPorts * (32'(presented.len) + 1) - 1);

  // --- parts

  logic                valid_q, last_q, error_q;
  port_beat_t          data_q;
  logic [PartBits-1:0] part_q;           // of the beat, in data_q
  beat_t               parts;            // the last AxiPorts of them, the latest on top
  logic                earlier_error_q;  // of a part of the beat
  logic                whole;            // data_q has the last part of a beat
  logic [AxiBits-PortBits-1:0] earlier_q;

  assign parts = {data_q, earlier_q};
  assign whole = valid_q && part_q == PartBits'(AxiPorts - 1);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q         <= 1'b0;
      part_q          <= '0;
      earlier_error_q <= 1'b0;
    end else begin
      valid_q <= m_axi_rvalid_i;
      if (valid_q) begin
        part_q          <= part_q + 1'b1;
        earlier_error_q <= !whole && (error_q || earlier_error_q);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    data_q  <= m_axi_rdata_i;
    last_q  <= m_axi_rlast_i;
    error_q <= m_axi_rresp_i[1];
    if (valid_q) earlier_q <= parts[AxiBits-1:PortBits];
  end

  // SLVERR and DECERR are errors; OKAY and EXOKAY are not.
  logic unused_response;
  assign unused_response = m_axi_rresp_i[0];

  // --- beats

  item_t assembled, head;
  logic  empty;

  assign assembled = '{error: error_q || earlier_error_q, last: last_q, data: parts};

  vdla_fifo #(
    .T    (item_t),
    .Depth(PortBursts * BurstBeats)
  ) u_beats (
    .clk_i,
    .rst_ni,
    .push_i (whole),
    .data_i (assembled),
    .full_o (),
    .head_o (head),
    .empty_o(empty),
    .pop_i  (beat_pop_i),
    .level_o()
  );

  assign beat_valid_o = !empty;
  assign beat_data_o  = head.data;
  assign beat_last_o  = head.last;
  assign beat_error_o = head.error;

`ifndef SYNTHESIS
  // A burst ends with a beat of the machine.
  WholeBeats_A: assert property (@(posedge clk_i) disable iff (!rst_ni) valid_q && last_q |-> whole);
  // An error of a beat is not one of the next.
  FreshBeat_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      part_q == '0 |-> !earlier_error_q);
  // The memory pauses within a beat; an error of a part that is not the last one of its beat.
  Paused_C: cover property (@(posedge clk_i) disable iff (!rst_ni) !valid_q && part_q != '0);
  EarlierError_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      whole && earlier_error_q && !error_q);
`endif

endmodule

`default_nettype wire
