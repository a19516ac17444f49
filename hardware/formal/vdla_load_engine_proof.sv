// SPDX-License-Identifier: Apache-2.0
// Proof: the engine keeps the contracts of its padding and its bursts, and pads before it requests.
// A burst stays within its page and within the configured length, and is offered, unchanged, until
// it is granted; padding is written where the walker says, and only while the engine is alone.
module vdla_load_engine_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input logic     clk_i,
  input logic     wants_start_i,
  input command_t command_i,
  input logic     alone_i,
  input logic     wants_grant_i,
  input logic     beat_valid_i,
  input beat_t    beat_data_i
);
  localparam int unsigned PageBeats = PageBytes / AxiBytes;
  localparam int unsigned PageBits = $clog2(PageBeats);
  localparam int unsigned BurstCap = BurstBeats < PageBeats ? BurstBeats : PageBeats;

  logic          rst_ni = 1'b0;  // low in the first cycle
  logic          start, grant, busy, requesting, burst_valid, write_valid;
  burst_t        burst, burst_q;
  buffer_write_t write;

  // The contract of the users: a load starts when none is executed, and what is offered is granted.
  assign start = wants_start_i && !busy;
  assign grant = wants_grant_i && burst_valid;

  vdla_load_engine u_engine (
    .clk_i,
    .rst_ni,
    .start_i        (start),
    .command_i,
    .alone_i,
    .busy_o         (busy),
    .requesting_o   (requesting),
    .padding_waits_o(),
    .burst_valid_o  (burst_valid),
    .burst_o        (burst),
    .burst_grant_i  (grant),
    .beat_valid_i,
    .beat_data_i,
    .write_valid_o  (write_valid),
    .write_o        (write),
    .complete_o     ()
  );

  // --- the load, as an observer sees it

  load_t load_q;
  logic  data_q, padding_q, valid_q, granted_q, fills_q;
  logic  [1:0] age_q;  // cycles since the start, 2 at most
  logic  [SramFieldBits-1:0] index_q;

  always_ff @(posedge clk_i) begin
    rst_ni    <= 1'b1;
    burst_q   <= burst;
    granted_q <= grant;
    valid_q   <= rst_ni && burst_valid;
    fills_q   <= rst_ni && u_engine.filling;
    index_q   <= u_engine.fill_index;
    if (!rst_ni || start) age_q <= '0;
    else if (age_q != 2'd2) age_q <= age_q + 1'b1;
    if (start) begin
      load_q    <= load_t'(command_i.word);
      data_q    <= command_i.has_data;
      padding_q <= command_i.has_padding;
    end
  end

  logic [PageBits-1:0] room;
  assign room = ~u_engine.u_bursts.addr_q[PageBits-1:0];

  always_comb begin
    if (rst_ni) begin
      if (start) assume (command_i.has_data || command_i.has_padding);

      // Bursts and padding begin two cycles after the start or later, and never together.
      if (burst_valid || u_engine.filling) assert (busy && age_q != '0);
      assert (!(burst_valid && u_engine.filling));
      if (u_engine.filling) assert (padding_q && alone_i);
      if (burst_valid) assert (data_q && requesting);
      // A burst is offered until it is granted, within its page and length.
      if (valid_q && !granted_q) assert (burst_valid && burst == burst_q);
      if (burst_valid) begin
        assert (32'(burst.addr[11:0]) + AxiBytes * (32'(burst.len) + 1) <= PageBytes);
        assert (32'(burst.len) < BurstBeats);
      end
      // Padding is written in the next cycle.
      if (fills_q) begin
        assert (write_valid && write.fill && write.index == index_q);
        assert (write.buffer == load_q.buffer && write.pad_value == load_q.pad_value);
      end
      if (write_valid && write.fill) assert (fills_q);

      // Invariants for the induction.
      assert (u_engine.requests_q == (u_engine.state_q == 2'd3));
      if (u_engine.state_q == 2'd1) assert (age_q == '0);
      assert ((u_engine.state_q == 2'd1) == u_engine.u_bursts.begin_q);
      assert (u_engine.u_padding.begin_q == u_engine.u_bursts.begin_q);
      if (u_engine.state_q > 2'd1) assert (age_q != '0);
      if (u_engine.state_q == 2'd2) assert (padding_q);
      if (u_engine.state_q == 2'd3) assert (data_q);
      if (busy) begin
        assert (u_engine.has_data_q == data_q && u_engine.has_padding_q == padding_q);
        assert (u_engine.load_q == load_q && (data_q || padding_q));
      end
      if (u_engine.state_q > 2'd1) begin
        assert (32'(u_engine.u_bursts.cap_q)
                == (32'(room) < BurstCap ? 32'(room) : BurstCap - 1));
        assert (u_engine.u_bursts.run_ends_q
                == (32'(u_engine.u_bursts.left_q) <= 32'(u_engine.u_bursts.cap_q)));
      end
      if (fills_q) begin
        assert (u_engine.write_valid_q && u_engine.write_q.fill);
        assert (u_engine.write_q.buffer == load_q.buffer);
      end
    end
  end
endmodule
