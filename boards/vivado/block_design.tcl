# SPDX-License-Identifier: Apache-2.0
# The block design: processing system, accelerator, interrupt controller, and what connects them.
#
# Invariant: addresses, ports and clocks are those of settings.tcl. Every cell runs at one clock; the
# multipliers of a machine with array_rate 2 have another, at twice the frequency, from the same
# MMCM, so that their edges are aligned and paths between the two are timed.

create_project -force $design [file join $here build project] -part $part
set_property board_part $installed_board_part [current_project]
if {[llength $board_connections] > 0} {
  set_property board_connections $board_connections [current_project]
}
set_property ip_repo_paths $ip_folder [current_project]
update_ip_catalog
add_files -fileset constrs_1 -norecurse [file join $here constraints.xdc]

create_bd_design $design

# --- the processing system

create_bd_cell -type ip -vlnv xilinx.com:ip:$ps_type $ps
apply_bd_automation -rule xilinx.com:bd_rule:$ps_type -config $ps_automation [get_bd_cells $ps]
set_property -dict $ps_config [get_bd_cells $ps]

# --- the cells

create_bd_cell -type ip -vlnv $ip_vlnv $ip_instance
create_bd_cell -type ip -vlnv xilinx.com:ip:axi_intc $interrupt_controller
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset proc_sys_reset_0
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control_0
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 2 CONFIG.NUM_CLKS 1} [get_bd_cells control_0]
set_property -dict {CONFIG.C_IRQ_CONNECTION 1} [get_bd_cells $interrupt_controller]

# A port of the processing system has the width of the accelerator's, so that only the protocol may
# differ: HP ports of a Zynq-7000 are AXI3, whose bursts have at most 16 beats; others are AXI4.
set memory_cells {}
if {$memory_protocol ne "AXI4"} {
  foreach {interface port} $memory {
    set cell memory_[llength $memory_cells]
    create_bd_cell -type ip -vlnv xilinx.com:ip:axi_protocol_converter $cell
    set_property -dict [list CONFIG.SI_PROTOCOL AXI4 CONFIG.MI_PROTOCOL $memory_protocol \
      CONFIG.TRANSLATION_MODE 2] [get_bd_cells $cell]
    lappend memory_cells $cell
  }
}

# --- clocks and resets

if {$array_rate == 1} {
  set clock $ps/$ps_clock
} else {
  create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz clk_wiz_0
  set_property -dict [list \
    CONFIG.PRIMITIVE MMCM \
    CONFIG.PRIM_SOURCE No_buffer \
    CONFIG.PRIM_IN_FREQ $clock_mhz \
    CONFIG.NUM_OUT_CLKS 2 \
    CONFIG.CLKOUT1_REQUESTED_OUT_FREQ $clock_mhz \
    CONFIG.CLKOUT1_REQUESTED_PHASE 0 \
    CONFIG.CLKOUT2_USED true \
    CONFIG.CLKOUT2_REQUESTED_OUT_FREQ [expr {$array_rate * $clock_mhz}] \
    CONFIG.CLKOUT2_REQUESTED_PHASE 0 \
    CONFIG.USE_LOCKED true \
    CONFIG.USE_RESET true \
    CONFIG.RESET_TYPE ACTIVE_LOW \
  ] [get_bd_cells clk_wiz_0]
  connect_bd_net [get_bd_pins $ps/$ps_clock] [get_bd_pins clk_wiz_0/clk_in1]
  connect_bd_net [get_bd_pins $ps/$ps_reset] [get_bd_pins clk_wiz_0/resetn]
  connect_bd_net [get_bd_pins clk_wiz_0/locked] [get_bd_pins proc_sys_reset_0/dcm_locked]
  connect_bd_net [get_bd_pins clk_wiz_0/clk_out2] [get_bd_pins $ip_instance/aclk${array_rate}x]
  set clock clk_wiz_0/clk_out1
}

connect_bd_net [get_bd_pins $ps/$ps_reset] [get_bd_pins proc_sys_reset_0/ext_reset_in]

set clocked [list proc_sys_reset_0/slowest_sync_clk $ip_instance/aclk $interrupt_controller/s_axi_aclk]
lappend clocked control_0/aclk
set reset [list $ip_instance/aresetn $interrupt_controller/s_axi_aresetn control_0/aresetn]
foreach cell $memory_cells {
  lappend clocked $cell/aclk
  lappend reset $cell/aresetn
}
foreach pin $ps_clock_inputs {
  lappend clocked $ps/$pin
}
foreach pin $clocked {
  connect_bd_net [get_bd_pins $clock] [get_bd_pins $pin]
}
foreach pin $reset {
  connect_bd_net [get_bd_pins proc_sys_reset_0/peripheral_aresetn] [get_bd_pins $pin]
}

# --- control, memory, interrupt

proc connect_buses {from to} {
  connect_bd_intf_net [get_bd_intf_pins $from] [get_bd_intf_pins $to]
}

connect_buses $ps/$control_port control_0/S00_AXI
connect_buses control_0/M00_AXI $ip_instance/$control_interface
connect_buses control_0/M01_AXI $interrupt_controller/s_axi
foreach {interface port} $memory cell $memory_cells {
  if {$cell eq ""} {
    connect_buses $ip_instance/$interface $ps/$port
  } else {
    connect_buses $ip_instance/$interface $cell/S_AXI
    connect_buses $cell/M_AXI $ps/$port
  }
}

# pynq shows an interrupt only behind a controller.
connect_bd_net [get_bd_pins $ip_instance/$interrupt_pin] [get_bd_pins $interrupt_controller/intr]
connect_bd_net [get_bd_pins $interrupt_controller/irq] [get_bd_pins $ps/$ps_interrupt]

# --- addresses: space, segment, offset, range

foreach {space segment offset range} $addresses {
  assign_bd_address -offset $offset -range $range -target_address_space [get_bd_addr_spaces $space] \
    [get_bd_addr_segs $segment] -force
}

# What a memory port reaches besides is not for the accelerator.
foreach {space segment} $excluded {
  exclude_bd_addr_seg -target_address_space [get_bd_addr_spaces $space] [get_bd_addr_segs $segment]
}

validate_bd_design
save_bd_design

# --- the top

# All of the design is synthesised at once: cells out of context would not see the clocks' phases.
set design_file [get_files $design.bd]
set_property synth_checkpoint_mode None $design_file
set wrapper [make_wrapper -files $design_file -top]
add_files -norecurse $wrapper
set_property top ${design}_wrapper [current_fileset]
update_compile_order -fileset sources_1
generate_target all $design_file
