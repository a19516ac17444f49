// SPDX-License-Identifier: Apache-2.0
// The state machine: starts a stream, counts its cycles, stops at its end, at an error, or by
// software.
//
//   Idle -> Clear -> Run -> Fold -> Idle    a stream: core reset, run, counters put in order
//   Run -> Stop -> Fold -> Idle             an error: nothing new begins, what AXI owes is awaited
//   any -> Stop -> Clear -> Idle            a reset by software
//
// Contract: started_i and ended_i report the events of the cycle before, in which run_o says
// whether that cycle counts: cycles 0 to total - 1, or those until an error or reset takes effect.
// The other inputs of the core are registered here. fetch_start_o is high FetchStartDelay cycles
// before cycle 0. halt_o is a register and acts some cycles after an error or reset, for which Stop
// allows. The core's resets are registers, one for each part; the core is reset by Clear, and after
// a stream it is halted with its state kept for software to read. The first error is recorded.

`default_nettype none

module vdla_control
  import vdla_types_pkg::*;
(
  input  logic                   clk_i,
  input  logic                   rst_ni,
  // Software.
  input  logic                   start_i,  // only while not busy
  input  logic                   reset_i,
  output logic                   busy_o,
  output logic                   done_o,
  output logic                   over_o,  // pulse: done or stopped by an error
  output error_e                 error_o,
  output logic [31:0]            error_index_o,
  output logic [CounterBits-1:0] cycles_o,
  output logic [Units-1:0][31:0] started_o,
  output logic [Units-1:0][31:0] ended_o,
  // The core.
  // One for each part of the core; low also before the first clock edge.
  (* keep = "true" *)
  output logic [CoreParts-1:0]   core_rst_no = '0,
  output logic                   fetch_start_o,
  output logic                   halt_o,
  output logic                   run_o,
  input  logic                   finished_i,  // every instruction has been dispatched and has ended
  input  logic                   quiet_i,  // no AXI transaction is outstanding
  input  logic                   invalid_i,  // the next word is an invalid instruction
  input  logic                   fetch_error_i,
  input  logic [Units-1:0]       unit_error_i,
  input  logic [31:0]            dispatched_i,
  input  logic [Units-1:0]       started_i,
  input  logic [Units-1:0]       ended_i,
  // The counters.
  output logic                   clear_o,
  output logic                   fold_o,
  output logic [3:0]             fold_select_o
);

  typedef enum logic [2:0] {
    StIdle,
    StClear,
    StRun,
    StFold,
    StStop
  } state_e;

  typedef logic [3:0] step_t;

  // Cycles of Clear: the core is in reset for the first part, and settled before it starts.
  localparam step_t ResetCycles = 4'd4;
  localparam step_t ClearCycles = 4'd12;
  localparam step_t StartStep = ClearCycles - 4'(FetchStartDelay);
  // Cycles of Stop in which a halt may not have reached all of the core.
  localparam step_t StopCycles = 4'd8;
  // Cycles of Fold before the counters are folded, one a cycle, and behind that.
  localparam step_t FoldDelay = 4'd4;
  localparam step_t FoldEnd = FoldDelay + 4'(CntIdle) + 4'd2;

  state_e state_q, state_d;
  step_t  step_q;                   // cycles in this state, at most 15
  logic   starting_q, resetting_q;  // why the core is cleared
  logic   step_ends;

  // What the core reported, a cycle later.
  logic             running_q, finished_q, quiet_q, invalid_q, fetch_error_q;
  logic [Units-1:0] unit_error_q;
  error_e           error;
  logic [31:0]      error_index;

  // --- the state

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      running_q     <= 1'b0;
      finished_q    <= 1'b0;
      quiet_q       <= 1'b0;
      invalid_q     <= 1'b0;
      fetch_error_q <= 1'b0;
      unit_error_q  <= '0;
    end else begin
      running_q     <= state_q == StRun;
      finished_q    <= finished_i;
      quiet_q       <= quiet_i;
      invalid_q     <= invalid_i;
      fetch_error_q <= fetch_error_i;
      unit_error_q  <= unit_error_i;
    end
  end

  // Clear and Fold last a fixed number of cycles, independent of the core.
  always_comb begin
    unique case (state_q)
      StClear: step_ends = step_q == ClearCycles - 1'b1;
      StFold:  step_ends = step_q == FoldEnd;
      StStop:  step_ends = step_q >= StopCycles && quiet_q;
      default: step_ends = 1'b1;
    endcase
  end

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle: if (start_i) state_d = StClear;
      StClear: if (step_ends) state_d = starting_q ? StRun : StIdle;
      StRun: begin
        if (error != ErrNone) state_d = StStop;
        else if (running_q && finished_q) state_d = StFold;
      end
      StStop: if (step_ends) state_d = resetting_q ? StClear : StFold;
      StFold: if (step_ends) state_d = StIdle;
      default: state_d = StIdle;
    endcase
    // A reset passes through Stop, which waits until AXI is quiet.
    if (reset_i) state_d = StStop;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= StIdle;
      step_q      <= '0;
      starting_q  <= 1'b0;
      resetting_q <= 1'b0;
      busy_o      <= 1'b0;
    end else begin
      state_q     <= state_d;
      if (state_d != state_q || reset_i) step_q <= '0;
      else if (step_q != '1) step_q <= step_q + 1'b1;
      starting_q  <= state_q == StIdle ? start_i : starting_q && !reset_i;
      resetting_q <= reset_i || (resetting_q && state_q != StClear);
      busy_o      <= state_d != StIdle;
    end
  end

  // --- what follows from the state, from registers

  logic clear_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      core_rst_no   <= '0;
      halt_o        <= 1'b1;
      fetch_start_o <= 1'b0;
      clear_q       <= 1'b0;
      fold_o        <= 1'b0;
    end else begin
      core_rst_no   <= {CoreParts{state_q != StClear || step_q >= ResetCycles}};
      halt_o        <= state_q != StRun && !(state_q == StClear && step_q > ResetCycles);
      fetch_start_o <= state_q == StClear && step_q == StartStep - 1'b1 && starting_q && !reset_i;
      clear_q       <= state_q == StClear && step_q < ResetCycles;
      fold_o        <= state_q == StFold && step_q >= FoldDelay
          && step_q <= FoldDelay + 4'(CntIdle);
    end
  end

  always_ff @(posedge clk_i) begin
    fold_select_o <= step_q - FoldDelay;
  end

  assign run_o   = running_q && !finished_q;
  assign clear_o = clear_q;
  assign over_o  = state_q == StFold && step_ends && !reset_i;

  // --- errors

  always_comb begin
    error = ErrNone;
    error_index = dispatched_i;
    if (invalid_q) begin
      error = ErrInstruction;
    end else if (fetch_error_q) begin
      error = ErrFetch;
    end else if (unit_error_q[0]) begin
      error = ErrLoad;
      error_index = ended_o[0];
    end else if (unit_error_q[1]) begin
      error = ErrCompute;
      error_index = ended_o[1];
    end else if (unit_error_q[2]) begin
      error = ErrStore;
      error_index = ended_o[2];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      done_o        <= 1'b0;
      error_o       <= ErrNone;
      error_index_o <= '0;
    end else if (clear_q) begin
      done_o        <= 1'b0;
      error_o       <= ErrNone;
      error_index_o <= '0;
    end else begin
      if (over_o) done_o <= error_o == ErrNone;
      if (state_q == StRun && error != ErrNone) begin
        error_o       <= error;
        error_index_o <= error_index;
      end
    end
  end

  // --- progress

  logic [CounterBits-1:0] cycles_q;
  logic [Units-1:0][31:0] started_q, ended_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_q) begin
      cycles_q  <= '0;
      started_q <= '0;
      ended_q   <= '0;
    end else begin
      if (run_o) cycles_q <= cycles_q + 1'b1;
      for (int unsigned u = 0; u < Units; u++) begin
        if (started_i[u]) started_q[u] <= started_q[u] + 1'b1;
        if (ended_i[u]) ended_q[u] <= ended_q[u] + 1'b1;
      end
    end
  end

  assign cycles_o  = cycles_q;
  assign started_o = started_q;
  assign ended_o   = ended_q;

`ifndef SYNTHESIS
  // Software starts only an idle machine.
  StartWhenIdle_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> !busy_o);
  // Instructions start and end only in counted cycles, and until a halt has reached the units.
  EventsCount_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      &core_rst_no && (started_i != '0 || ended_i != '0) |->
      run_o || (state_q == StStop && step_q < StopCycles));
  // A cleared core has no outstanding transaction.
  ClearIsQuiet_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      state_q == StClear |-> quiet_i);
  // A reset comes in the last cycle of a run, and while a stop waits for the memory.
  ResetAtTheEnd_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      state_q == StFold && step_ends && reset_i);
  StopWaits_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      state_q == StStop && step_q >= StopCycles && !quiet_q);
`endif

endmodule

`default_nettype wire
