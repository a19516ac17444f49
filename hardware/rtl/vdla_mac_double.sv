// SPDX-License-Identifier: Apache-2.0
// A multiply-add that chooses between two operands a in every cycle, with all registers of a
// DSP48E1: sum = start or cascade + (upper ? upper_a : lower_a) * b.
//
// Contract: an edge with load_i loads both operands a, and b. upper_i is registered at that edge
// too, and chooses at the next one. Loaded operands last until the next load. Latency: 4 cycles
// from operands to sum, 2 from start_i (of the First of a chain), 1 from cascade_i (of the others).
// One sum per cycle.
//
// Synthesis gets the slice itself, since no tool finds the choice between the operands of its
// pre-adder in a description, nor the input registers of operands with constant bits. The cascades
// are wires between the slices of a column.
`default_nettype none

module vdla_mac_double #(
  parameter bit First = 1'b1
) (
  input  logic               clk_i,
  input  logic               load_i,
  input  logic               upper_i,
  input  logic signed [24:0] lower_a_i,
  input  logic signed [24:0] upper_a_i,
  input  logic signed [17:0] b_i,
  input  logic signed [47:0] start_i,
  input  logic signed [47:0] cascade_i,
  output logic signed [47:0] cascade_o,
  output logic signed [47:0] sum_o
);
`ifdef SYNTHESIS
  DSP48E1 #(
    .AREG         (1),
    .ACASCREG     (1),
    .BREG         (2),
    .BCASCREG     (2),
    .CREG         (32'(First)),
    .DREG         (1),
    .ADREG        (1),
    .MREG         (1),
    .PREG         (1),
    .INMODEREG    (1),
    .OPMODEREG    (0),
    .ALUMODEREG   (0),
    .CARRYINREG   (0),
    .CARRYINSELREG(0),
    .USE_DPORT    ("TRUE"),
    .USE_MULT     ("MULTIPLY")
  ) u_slice (
    .CLK          (clk_i),
    .A            (30'(lower_a_i)),
    .D            (upper_a_i),
    .B            (b_i),
    .C            (start_i),
    .PCIN         (cascade_i),
    .P            (sum_o),
    .PCOUT        (cascade_o),
    // The pre-adder adds D or A; the other is gated to 0.
    .INMODE       ({2'b00, upper_i, upper_i, 1'b0}),
    // M + C or M + PCIN.
    .OPMODE       (First ? 7'b011_01_01 : 7'b001_01_01),
    .ALUMODE      (4'b0000),
    .CARRYIN      (1'b0),
    .CARRYINSEL   (3'b000),
    .CEA1         (1'b0),
    .CEA2         (load_i),
    .CED          (load_i),
    .CEB1         (load_i),
    .CEB2         (1'b1),
    .CEC          (First),
    .CEAD         (1'b1),
    .CEM          (1'b1),
    .CEP          (1'b1),
    .CEINMODE     (1'b1),
    .CECTRL       (1'b0),
    .CEALUMODE    (1'b0),
    .CECARRYIN    (1'b0),
    .RSTA         (1'b0),
    .RSTB         (1'b0),
    .RSTC         (1'b0),
    .RSTD         (1'b0),
    .RSTM         (1'b0),
    .RSTP         (1'b0),
    .RSTINMODE    (1'b0),
    .RSTCTRL      (1'b0),
    .RSTALUMODE   (1'b0),
    .RSTALLCARRYIN(1'b0),
    .ACIN         (30'd0),
    .BCIN         (18'd0),
    .CARRYCASCIN  (1'b0),
    .MULTSIGNIN   (1'b0),
    .ACOUT        (),
    .BCOUT        (),
    .CARRYCASCOUT (),
    .CARRYOUT     (),
    .MULTSIGNOUT  (),
    .OVERFLOW     (),
    .UNDERFLOW    (),
    .PATTERNDETECT(),
    .PATTERNBDETECT()
  );
`else
  // The names of the registers are those of the slice.
  logic signed [24:0] a_q, d_q, ad_q;
  logic signed [17:0] b1_q, b2_q;
  logic signed [42:0] m_q;
  logic signed [47:0] c_q, p_q;
  logic upper_q;

  always_ff @(posedge clk_i) begin
    if (load_i) begin
      a_q <= lower_a_i;
      d_q <= upper_a_i;
      b1_q <= b_i;
    end
    upper_q <= upper_i;
    ad_q <= upper_q ? d_q : a_q;
    b2_q <= b1_q;
    m_q <= ad_q * b2_q;
    c_q <= start_i;
    p_q <= (First ? c_q : cascade_i) + 48'(m_q);
  end

  assign sum_o = p_q;
  assign cascade_o = p_q;
`endif
endmodule

`default_nettype wire
