// SPDX-License-Identifier: Apache-2.0
// The control registers (docs/registers.md): decodes accesses, holds the set-up.
//
// Contract: write_i is answered in the same cycle, the address of a read RegisterDelay cycles later
// if it stays that long and the counters are not folded meanwhile. A write to the set-up or a start
// while busy, a write to a read-only register, a value outside the limits of its register, and any
// access outside the registers are refused without effect. start_o and reset_o are pulses in the
// cycle after the write, and writes come at least two cycles apart; a reset is never refused and
// cancels a start.

`default_nettype none

module vdla_registers
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
#(
  parameter logic [47:0] Build = '0  // identifies sources and configuration
) (
  input  logic                                   clk_i,
  input  logic                                   rst_ni,
  // Accesses.
  input  logic                                   write_i,
  input  reg_addr_t                              write_addr_i,
  input  logic [31:0]                            write_data_i,
  input  logic [3:0]                             write_strb_i,
  output logic                                   write_error_o,
  input  reg_addr_t                              read_addr_i,
  output logic [31:0]                            read_data_o,
  output logic                                   read_error_o,
  // Commands and the set-up of a run.
  output logic                                   start_o,
  output logic                                   reset_o,
  output addr_t                                  base_o,
  output logic [31:0]                            count_o,
  output logic [ReadLatencyBits-1:0]             read_latency_o,
  output logic [ReadLimitBits-1:0]               read_limit_o,
  output logic [WriteLimitBits-1:0]              write_limit_o,
  // State of the machine.
  input  logic                                   busy_i,
  input  logic                                   done_i,
  input  logic                                   over_i,  // pulse: done or stopped by an error
  input  error_e                                 error_i,
  input  logic [31:0]                            error_index_i,
  input  logic [CounterBits-1:0]                 cycles_i,
  input  logic [31:0]                            dispatched_i,
  input  logic [Units-1:0][31:0]                 started_i,
  input  logic [Units-1:0][31:0]                 ended_i,
  input  logic [Units-1:0][CommandLevelBits-1:0] commands_i,
  input  logic [3:0][TokenLevelBits-1:0]         tokens_i,  // in the order of their registers
  output logic [3:0]                             counter_select_o,
  // Of the counter selected in the cycle before, fetch first.
  input  logic [Units:0][CounterBits-1:0]        counters_i,
  output logic                                   irq_o
);

  logic [31:0]                stream_lo_q;
  logic [StreamHiBits-1:0]    stream_hi_q;
  logic                       enable_q, pending_q;

  // --- writes

  logic accepted, commanded, flagged, resets, starts;

  // The old value with the written bytes.
  function automatic logic [31:0] merge(logic [31:0] old);
    for (int unsigned b = 0; b < 4; b++) begin
      merge[8*b+:8] = write_strb_i[b] ? write_data_i[8*b+:8] : old[8*b+:8];
    end
  endfunction

  logic [31:0] read_limit, write_limit;  // after an accepted write to them

  assign read_limit  = merge(32'(read_limit_o));
  assign write_limit = merge(32'(write_limit_o));

  assign commanded = write_i && write_addr_i == RegControl && write_strb_i[0];
  assign flagged   = write_i && write_addr_i == RegInterrupt && write_strb_i[0];
  assign resets    = commanded && write_data_i[ControlReset];
  assign starts    = commanded && write_data_i[ControlStart] && !resets;

  always_comb begin
    unique case (write_addr_i)
      RegControl: write_error_o = starts && busy_i;
      RegInterrupt: write_error_o = 1'b0;
      RegStreamLo, RegStreamHi, RegCount, RegReadLatency: write_error_o = busy_i;
      RegReadLimit: begin
        write_error_o = busy_i || read_limit < ReadLimitLeast || read_limit > ReadLimitMost;
      end
      RegWriteLimit: begin
        write_error_o = busy_i || write_limit < WriteLimitLeast || write_limit > WriteLimitMost;
      end
      default: write_error_o = 1'b1;
    endcase
  end

  assign accepted = write_i && !write_error_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      start_o <= 1'b0;
      reset_o <= 1'b0;
    end else begin
      start_o <= starts && !busy_i;
      reset_o <= resets;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      stream_lo_q    <= '0;
      stream_hi_q    <= '0;
      count_o        <= '0;
      read_latency_o <= ReadLatencyBits'(ReadLatencyReset);
      read_limit_o   <= ReadLimitBits'(ReadLimitReset);
      write_limit_o  <= WriteLimitBits'(WriteLimitReset);
    end else if (accepted) begin
      unique case (write_addr_i)
        RegStreamLo: stream_lo_q <= merge(stream_lo_q);
        RegStreamHi: stream_hi_q <= StreamHiBits'(merge(32'(stream_hi_q)));
        RegCount: count_o <= merge(count_o);
        RegReadLatency: read_latency_o <= ReadLatencyBits'(merge(32'(read_latency_o)));
        RegReadLimit: read_limit_o <= ReadLimitBits'(read_limit);
        RegWriteLimit: write_limit_o <= WriteLimitBits'(write_limit);
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      enable_q  <= 1'b0;
      pending_q <= 1'b0;
      irq_o     <= 1'b0;
    end else begin
      if (flagged) enable_q <= write_data_i[InterruptEnable];
      pending_q <= over_i || (pending_q && !(flagged && write_data_i[InterruptPending]));
      irq_o     <= enable_q && pending_q;
    end
  end

  // A stream begins at a beat: the bits below are 0.
  assign base_o = {stream_hi_q, stream_lo_q[31:AxiShift], AxiShift'(0)};

  // --- reads: values are chosen in groups, then among these

  // The position of a counter: unit, counter, half.
  typedef struct packed {
    logic [1:0] unit;
    logic [3:0] counter;
    logic       high;
  } place_t;

  place_t place;
  logic   is_counter;
  logic [CounterBits-1:0] counter;
  logic [31:0] status, interrupt, counter_half;

  assign place            = place_t'((read_addr_i - RegCounters) >> 2);
  assign is_counter       = read_addr_i >= RegCounters
                         && read_addr_i < RegCounters + reg_addr_t'((Units + 1) * UnitStride)
                         && 32'(place.counter) < Counters;
  assign counter_select_o = place.counter;
  assign counter          = counters_i[place.unit];
  assign counter_half     = place.high ? 32'(counter[CounterBits-1:32]) : counter[31:0];

  always_comb begin
    status = '0;
    status[StatusBusy] = busy_i;
    status[StatusDone] = done_i;
    status[StatusError] = error_i != ErrNone;
    interrupt = '0;
    interrupt[InterruptEnable] = enable_q;
    interrupt[InterruptPending] = pending_q;
  end

  // A group is 0 for the address of another one.
  logic [31:0] setup, state, progress, levels;
  logic [31:0] setup_q, state_q, progress_q, levels_q, counter_q;
  logic        setup_known, state_known, progress_known, levels_known;

  always_comb begin
    setup_known = 1'b1;
    unique case (read_addr_i)
      RegId: setup = IdReset;
      RegVersion: setup = VersionReset;
      RegFingerprintLo: setup = Fingerprint[31:0];
      RegFingerprintHi: setup = 32'(Fingerprint[47:32]);
      RegBuildLo: setup = Build[31:0];
      RegBuildHi: setup = 32'(Build[47:32]);
      RegControl: setup = '0;
      RegStreamLo: setup = stream_lo_q;
      RegStreamHi: setup = 32'(stream_hi_q);
      RegCount: setup = count_o;
      RegReadLatency: setup = 32'(read_latency_o);
      RegReadLimit: setup = 32'(read_limit_o);
      RegWriteLimit: setup = 32'(write_limit_o);
      default: begin
        setup = '0;
        setup_known = 1'b0;
      end
    endcase
  end

  always_comb begin
    state_known = 1'b1;
    unique case (read_addr_i)
      RegStatus: state = status;
      RegInterrupt: state = interrupt;
      RegError: state = 32'(error_i);
      RegErrorIndex: state = error_index_i;
      RegCyclesLo: state = cycles_i[31:0];
      RegCyclesHi: state = 32'(cycles_i[CounterBits-1:32]);
      default: begin
        state = '0;
        state_known = 1'b0;
      end
    endcase
  end

  always_comb begin
    progress_known = 1'b1;
    unique case (read_addr_i)
      RegDispatched: progress = dispatched_i;
      RegLoadStarted: progress = started_i[UnitLoad];
      RegLoadEnded: progress = ended_i[UnitLoad];
      RegComputeStarted: progress = started_i[UnitCompute];
      RegComputeEnded: progress = ended_i[UnitCompute];
      RegStoreStarted: progress = started_i[UnitStore];
      RegStoreEnded: progress = ended_i[UnitStore];
      default: begin
        progress = '0;
        progress_known = 1'b0;
      end
    endcase
  end

  always_comb begin
    levels_known = 1'b1;
    unique case (read_addr_i)
      RegLoadCommands: levels = 32'(commands_i[UnitLoad]);
      RegComputeCommands: levels = 32'(commands_i[UnitCompute]);
      RegStoreCommands: levels = 32'(commands_i[UnitStore]);
      RegLoadToComputeTokens: levels = 32'(tokens_i[0]);
      RegComputeToLoadTokens: levels = 32'(tokens_i[1]);
      RegComputeToStoreTokens: levels = 32'(tokens_i[2]);
      RegStoreToComputeTokens: levels = 32'(tokens_i[3]);
      default: begin
        levels = '0;
        levels_known = 1'b0;
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    setup_q      <= setup;
    state_q      <= state;
    progress_q   <= progress;
    levels_q     <= levels;
    counter_q    <= is_counter ? counter_half : '0;
    read_error_o <= !(setup_known || state_known || progress_known || levels_known || is_counter);
  end

  assign read_data_o = setup_q | state_q | progress_q | levels_q | counter_q;

`ifndef SYNTHESIS
  // The set-up is stable while the machine uses it.
  SetupIsStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      busy_i |=> $stable({base_o, count_o, read_latency_o, read_limit_o, write_limit_o}));
`endif

endmodule

`default_nettype wire
