// The state machine: starts a stream, counts its cycles, stops at its end, at an error, or by
// software.
//
//   Idle -> Clear -> Run -> Fold -> Idle    a stream: core reset, run, counters put in order
//   Run -> Stop -> Fold -> Idle             an error: nothing new begins, what AXI owes is awaited
//   any -> Stop -> Clear -> Idle            a reset by software
//
// Contract: run_o is high in the counted cycles, 0 to total - 1, or until an error or reset takes
// effect. fetch_start_o is high FetchStartDelay cycles before. The core's reset is a register; the core is
// reset by Clear, and after a stream it is halted with its state kept for software to read. The
// first error is recorded.

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
  output logic                   core_rst_no = 1'b0,  // also before the first clock edge
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

  // Cycles of Clear: the core is in reset for the first half, and settled before the last.
  localparam logic [3:0] ResetCycles = 4'd4;
  localparam logic [3:0] ClearCycles = 4'd8;
  localparam logic [3:0] StartStep = ClearCycles - 4'(FetchStartDelay);
  localparam logic [3:0] LastCounter = 4'(CntIdle);

  state_e     state_q, state_d;
  logic [3:0] step_q;  // cycles in this state, for Clear and Fold
  logic       starting_q, resetting_q;  // why the core is cleared
  logic       step_ends;
  error_e     error;
  logic [31:0] error_index;

  // --- the state

  // Clear and Fold last a fixed number of cycles, independent of the core.
  always_comb begin
    unique case (state_q)
      StClear: step_ends = step_q == ClearCycles - 1'b1;
      StFold:  step_ends = step_q == LastCounter;
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
        else if (finished_i) state_d = StFold;
      end
      StStop: if (quiet_i) state_d = resetting_q ? StClear : StFold;
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
      core_rst_no <= 1'b0;
    end else begin
      state_q     <= state_d;
      step_q      <= step_ends || reset_i ? '0 : step_q + 1'b1;
      starting_q  <= state_q == StIdle ? start_i : starting_q && !reset_i;
      resetting_q <= reset_i || (resetting_q && state_q != StClear);
      core_rst_no <= state_q != StClear || step_q >= ResetCycles;
    end
  end

  assign busy_o        = state_q != StIdle;
  assign halt_o        = state_q != StRun && !(state_q == StClear && step_q > ResetCycles);
  assign fetch_start_o = state_q == StClear && step_q == StartStep && starting_q && !reset_i;
  assign run_o         = state_q == StRun && !finished_i;
  assign clear_o       = state_q == StClear;
  assign fold_o        = state_q == StFold;
  assign fold_select_o = step_q;
  assign over_o        = state_q == StFold && step_ends && !reset_i;

  // --- errors

  always_comb begin
    error = ErrNone;
    error_index = dispatched_i;
    if (invalid_i) begin
      error = ErrInstruction;
    end else if (fetch_error_i) begin
      error = ErrFetch;
    end else if (unit_error_i[0]) begin
      error = ErrLoad;
      error_index = ended_o[0];
    end else if (unit_error_i[1]) begin
      error = ErrCompute;
      error_index = ended_o[1];
    end else if (unit_error_i[2]) begin
      error = ErrStore;
      error_index = ended_o[2];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      done_o        <= 1'b0;
      error_o       <= ErrNone;
      error_index_o <= '0;
    end else if (state_q == StClear) begin
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

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      cycles_o  <= '0;
      started_o <= '0;
      ended_o   <= '0;
    end else if (state_q == StClear) begin
      cycles_o  <= '0;
      started_o <= '0;
      ended_o   <= '0;
    end else if (run_o) begin
      cycles_o <= cycles_o + 1'b1;
      for (int unsigned u = 0; u < Units; u++) begin
        started_o[u] <= started_o[u] + 32'(started_i[u]);
        ended_o[u]   <= ended_o[u] + 32'(ended_i[u]);
      end
    end
  end

`ifndef SYNTHESIS
  // Software starts only an idle machine.
  StartWhenIdle_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> !busy_o);
  // Instructions start and end only in counted cycles.
  EventsCount_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      core_rst_no && (started_i != '0 || ended_i != '0) |-> run_o);
  // A cleared core has no outstanding transaction.
  ClearIsQuiet_A: assert property (@(posedge clk_i) disable iff (!rst_ni) clear_o |-> quiet_i);
`endif

endmodule
