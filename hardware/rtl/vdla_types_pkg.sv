// SPDX-License-Identifier: Apache-2.0
// The types that modules exchange; those of a configuration are in the generated vdla_pkg.

`default_nettype none

package vdla_types_pkg;
  import vdla_pkg::*;

  // A package has more parameters than a design uses.
  /* verilator lint_off UNUSEDPARAM */
  // Units by number, as in unit_e, without fetch. Requesters of the read channel by priority, which
  // is their AXI ID.
  parameter int unsigned Units = 3;
  parameter int unsigned Requesters = 3;
  parameter int unsigned ReqFetch = 0;
  parameter int unsigned ReqCompute = 1;
  parameter int unsigned ReqLoad = 2;

  parameter int unsigned AxiBytes = AxiBits / 8;
  parameter int unsigned AxiShift = $clog2(AxiBytes);
  parameter int unsigned InstrBeats = InstrBits / AxiBits;

  // A beat of the machine is AxiPorts beats of a port.
  parameter int unsigned PortBits = AxiBits / AxiPorts;
  parameter int unsigned PortBytes = PortBits / 8;
  parameter int unsigned PortShift = $clog2(PortBytes);

  // The product of two sizes of a transfer, and the beats of its longest run.
  parameter int unsigned PlaneBits = 2 * SizeFieldBits;

  // Beats of the entries of buffers, and of the vectors that a VECTOR indexes.
  parameter int unsigned InpBeats = InpEntryBits / AxiBits;
  parameter int unsigned WgtBeats = WgtEntryBits / AxiBits;
  parameter int unsigned SclBeats = SclEntryBits / AxiBits;
  parameter int unsigned UopBeats = UopEntryBits / AxiBits;
  parameter int unsigned AccBeats = AccEntryBits / AxiBits;
  parameter int unsigned OutBeats = OutEntryBits / AxiBits;
  parameter int unsigned InpVectorBits = Batch * BlockOut * InpBits;
  parameter int unsigned WgtVectorBits = BlockOut * WgtBits;
  parameter int unsigned Lanes = Batch * BlockOut;

  parameter int unsigned MostBeats = WgtBeats > SclBeats
      ? (WgtBeats > AccBeats ? (WgtBeats > InpBeats ? WgtBeats : InpBeats)
                             : (AccBeats > InpBeats ? AccBeats : InpBeats))
      : (SclBeats > AccBeats ? (SclBeats > InpBeats ? SclBeats : InpBeats)
                             : (AccBeats > InpBeats ? AccBeats : InpBeats));
  parameter int unsigned BeatIndexBits = MostBeats > 1 ? $clog2(MostBeats) : 1;

  // Latency from the operands of the GEMM core to its sums, and the stage of the pipeline in which
  // they arrive at the accumulator.
  parameter int unsigned GemmLatency = 3 + $clog2(BlockIn);
  parameter int unsigned AccStage = 3 + GemmLatency;

  // From fetch's start pulse to cycle 0 of the timing contract.
  parameter int unsigned FetchStartDelay = 3;

  // Parts of the core with a reset of their own; the queues belong to fetch.
  parameter int unsigned CoreParts = 5;
  parameter int unsigned PartFetch = 0;
  parameter int unsigned PartArbiter = 1;
  parameter int unsigned PartLoad = 2;
  parameter int unsigned PartCompute = 3;
  parameter int unsigned PartStore = 4;

  // From the address of a register to its value, for reads by the control port.
  parameter int unsigned RegisterDelay = 2;

  parameter int unsigned CounterBits = 48;
  parameter int unsigned CommandLevelBits = $clog2(CommandDepth + 1);
  parameter int unsigned TokenLevelBits = $clog2(TokenDepth + 1);
  /* verilator lint_on UNUSEDPARAM */

  typedef logic [InstrBits-1:0] instr_t;
  typedef logic [AxiAddrBits-1:0] addr_t;
  typedef logic [AxiBits-1:0] beat_t;
  typedef logic [PortBits-1:0] port_beat_t;

  typedef struct packed {
    logic push_next;
    logic push_prev;
    logic pop_next;
    logic pop_prev;
  } tokens_t;

  // An entry of a command queue: the word, and what fetch derives from it so that units need not at
  // the start of the instruction.
  typedef struct packed {
    logic one_uop;                // of a GEMM or VECTOR: uop_end is uop_begin + 1
    logic one_inner;              // of a GEMM or VECTOR: loop1 is 1
    logic one_outer;              // of a GEMM or VECTOR: loop0 is 1
    logic has_padding;            // of a LOAD
    logic has_data;               // of a LOAD
    logic one_row;                // of a LOAD or STORE: y_size is 1
    logic one_plane;              // of a LOAD or STORE: z_size is 1
    logic [PlaneBits-1:0] plane;  // of a LOAD or STORE: y_size * x_size
    instr_t word;
  } command_t;

  typedef logic [1:0] requester_t;

  // A read or write burst; len is AXI's, one less than the beats.
  typedef struct packed {
    addr_t addr;
    logic [7:0] len;
  } burst_t;

  // A write into a buffer: a beat of an entry or, with fill, padding of the whole entry. With widen
  // a beat has elements of InpBits and fills 32 / InpBits beats of an accumulator entry.
  typedef struct packed {
    buffer_e buffer;
    logic fill;
    logic widen;
    logic [SramFieldBits-1:0] index;
    logic [BeatIndexBits-1:0] beat;
    beat_t data;
    logic signed [31:0] pad_value;
  } buffer_write_t;

  // The counter of a unit's cycle, in the order of the counters' registers.
  typedef enum logic [3:0] {
    CntBusy = 4'd0,
    CntMemoryLatency = 4'd1,
    CntMemoryBandwidth = 4'd2,
    CntWaitLoadToCompute = 4'd3,
    CntWaitComputeToLoad = 4'd4,
    CntWaitComputeToStore = 4'd5,
    CntWaitStoreToCompute = 4'd6,
    CntCommands = 4'd7,
    CntIdle = 4'd8
  } counter_e;

  // Why the machine stopped before the end of the program.
  typedef enum logic [7:0] {
    ErrNone = 8'd0,
    ErrInstruction = 8'd1,
    ErrFetch = 8'd2,
    ErrLoad = 8'd3,
    ErrCompute = 8'd4,
    ErrStore = 8'd5
  } error_e;

  // The events from which an observer derives the times of every instruction; units execute in
  // order.
  typedef struct packed {
    logic running;  // the cycle is counted
    logic dispatch;
    logic [Units-1:0] started;
    logic [Units-1:0] ended;
  } trace_t;

endpackage

`default_nettype wire
