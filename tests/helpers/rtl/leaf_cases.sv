// SPDX-License-Identifier: Apache-2.0
// The leaf modules in several sizes side by side: one build for all of them. Pins of instance i are bit or word i.

module leaf_cases #(
  localparam int unsigned Cases = 5,
  localparam int unsigned LevelBits = 8
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  // FIFOs of 40-bit words.
  input  logic [Cases-1:0]                 push_i,
  input  logic [Cases-1:0][39:0]           data_i,
  input  logic [Cases-1:0]                 pop_i,
  output logic [Cases-1:0]                 full_o,
  output logic [Cases-1:0]                 empty_o,
  output logic [Cases-1:0][39:0]           head_o,
  output logic [Cases-1:0][LevelBits-1:0]  level_o,
  // Command queues of 40-bit words.
  input  logic [Cases-1:0]                 command_push_i,
  input  logic [Cases-1:0][39:0]           command_i,
  input  logic [Cases-1:0]                 command_pop_i,
  output logic [Cases-1:0]                 command_full_o,
  output logic [Cases-1:0]                 command_valid_o,
  output logic [Cases-1:0]                 command_empty_o,
  output logic [Cases-1:0][39:0]           command_o,
  output logic [Cases-1:0][LevelBits-1:0]  command_level_o,
  // Token queues.
  input  logic [Cases-1:0]                 token_push_i,
  input  logic [Cases-1:0]                 token_pop_i,
  output logic [Cases-1:0]                 room_o,
  output logic [Cases-1:0]                 available_o,
  output logic [Cases-1:0][LevelBits-1:0]  token_level_o,
  // A memory of 24 entries of three 5-bit lanes.
  input  logic [2:0]                       we_i,
  input  logic [4:0]                       waddr_i,
  input  logic [14:0]                      wdata_i,
  input  logic                             re_i,
  input  logic [4:0]                       raddr_i,
  output logic [14:0]                      rdata_o
);

  typedef int unsigned depths_t[Cases];
  localparam depths_t Depths = '{1, 2, 3, 8, 100};

  for (genvar i = 0; i < Cases; i++) begin : gen_case
    localparam int unsigned Bits = $clog2(Depths[i] + 1);
    logic [Bits-1:0] level, command_level, token_level;

    vdla_fifo #(
      .T    (logic [39:0]),
      .Depth(Depths[i])
    ) u_fifo (
      .clk_i,
      .rst_ni,
      .push_i (push_i[i]),
      .data_i (data_i[i]),
      .full_o (full_o[i]),
      .head_o (head_o[i]),
      .empty_o(empty_o[i]),
      .pop_i  (pop_i[i]),
      .level_o(level)
    );

    vdla_command_queue #(
      .T    (logic [39:0]),
      .Depth(Depths[i])
    ) u_commands (
      .clk_i,
      .rst_ni,
      .push_i (command_push_i[i]),
      .data_i (command_i[i]),
      .full_o (command_full_o[i]),
      .head_o (command_o[i]),
      .valid_o(command_valid_o[i]),
      .pop_i  (command_pop_i[i]),
      .empty_o(command_empty_o[i]),
      .level_o(command_level)
    );

    vdla_counter_queue #(
      .Depth(Depths[i])
    ) u_tokens (
      .clk_i,
      .rst_ni,
      .push_i     (token_push_i[i]),
      .pop_i      (token_pop_i[i]),
      .available_o(available_o[i]),
      .room_o     (room_o[i]),
      .level_o    (token_level)
    );

    assign level_o[i] = LevelBits'(level);
    assign command_level_o[i] = LevelBits'(command_level);
    assign token_level_o[i] = LevelBits'(token_level);
  end

  vdla_ram #(
    .Depth   (24),
    .LaneBits(5),
    .Lanes   (3)
  ) u_ram (
    .clk_i,
    .rst_ni,
    .we_i,
    .waddr_i,
    .wdata_i,
    .re_i,
    .raddr_i,
    .rdata_o
  );

endmodule
