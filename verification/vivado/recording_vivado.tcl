# SPDX-License-Identifier: Apache-2.0
# A model of the Vivado commands that the flow uses: it checks options, files and names, and records
# every call as a line of words between unit separators. A command or an option that it does not know is an error.
#
# Usage: tclsh recording_vivado.tcl BUILD.TCL RECORD [SLACK [VERSION [BOARD_PARTS [UNCONSTRAINED]]]]

lassign $argv script record_file slack vivado_version board_parts unconstrained
if {$slack eq ""} { set slack 0.123 }
if {$unconstrained eq ""} { set unconstrained 0 }
if {$vivado_version eq ""} { set vivado_version 2022.1 }

set auto_noexec 1
set record [open $record_file w]
fconfigure $record -encoding utf-8

# name: options with a value, options without one. From the command reference UG835.
set commands {
  create_project {-part} {-force}
  close_project {} {}
  current_project {} {}
  set_property {-dict} {}
  exclude_bd_addr_seg {-target_address_space -offset -range} {}
  check_timing {-file -override_defaults -include_signal -name} {-no_header -loads -return_string -verbose}
  report_cdc {-from -to -cells -file -severity -name} {-details -summary -return_string -waived -show_waiver}
  report_methodology {-name -cells -checks -file -rpx} {-append -return_string -waived -no_waivers}
  report_drc {-name -checks -ruledecks -file -rpx -format} {-append -return_string -waived -no_waivers}
  get_property {} {}
  add_files {-fileset} {-norecurse}
  current_fileset {} {}
  get_board_parts {} {-quiet}
  update_ip_catalog {} {}
  update_compile_order {-fileset} {}
  ipx::package_project {-root_dir -vendor -library -taxonomy} {-force -import_files}
  ipx::current_core {} {}
  ipx::get_bus_interfaces {-of_objects} {-quiet}
  ipx::infer_bus_interface {} {}
  ipx::get_bus_parameters {-of_objects} {-quiet}
  ipx::add_bus_parameter {} {}
  ipx::get_memory_maps {-of_objects} {-quiet}
  ipx::add_memory_map {} {}
  ipx::get_address_blocks {-of_objects} {-quiet}
  ipx::add_address_block {} {}
  ipx::add_register {} {}
  ipx::add_field {} {}
  ipx::add_user_parameter {} {}
  ipx::create_xgui_files {} {}
  ipx::update_checksums {} {}
  ipx::check_integrity {} {}
  ipx::save_core {} {}
  create_bd_design {} {}
  create_bd_cell {-type -vlnv} {}
  apply_bd_automation {-rule -config} {}
  get_bd_cells {} {}
  get_bd_pins {} {}
  get_bd_intf_pins {} {}
  get_bd_addr_spaces {} {}
  get_bd_addr_segs {} {}
  connect_bd_net {} {}
  connect_bd_intf_net {} {}
  assign_bd_address {-offset -range -target_address_space} {-force}
  validate_bd_design {} {}
  save_bd_design {} {}
  get_files {} {}
  make_wrapper {-files} {-top}
  generate_target {} {}
  launch_runs {-jobs -to_step} {}
  wait_on_run {} {}
  get_runs {} {}
  open_run {} {}
  get_timing_paths {-delay_type -max_paths} {}
  report_timing_summary {-file} {}
  report_utilization {-file} {}
  report_clocks {-file} {}
  close_design {} {}
}

# The options of a call as a dictionary, its other words under the empty name.
proc parse {name words} {
  global commands valued flags
  set result [dict create {} {}]
  while {[llength $words] > 0} {
    set words [lassign $words word]
    if {$word in [dict get $valued $name]} {
      if {[llength $words] == 0} { error "$name: option $word must have a value" }
      set words [lassign $words value]
      dict set result $word $value
    } elseif {$word in [dict get $flags $name]} {
      dict set result $word 1
    } elseif {[regexp {^-[a-z]} $word]} {
      error "$name: option must be known, got $word"
    } else {
      dict lappend result {} $word
    }
  }
  return $result
}

set valued [dict create]
set flags [dict create]
foreach {name with without} $commands {
  dict set valued $name $with
  dict set flags $name $without
  namespace eval [namespace qualifiers ::$name] {}
  proc ::$name {args} [format {
    set call [parse %1$s $args]
    set result [answer %1$s $call]
    puts $::record [join [list %1$s {*}$args] \x1f]
    return $result
  } $name]
}

proc version {option} {
  if {$option ne "-short"} { error "version: option must be -short, got $option" }
  return $::vivado_version
}

# --- what the commands answer

set files {}
set interfaces {}
set objects {}

proc answer {name call} {
  set plain [dict get $call {}]
  set first [lindex $plain 0]
  switch -glob -- $name {
    create_project {
      file mkdir [lindex $plain 1]
      set ::project [lindex $plain 1]
      set ::files {}
      return $first
    }
    current_project - current_fileset - ipx::current_core { return [namespace tail $name] }
    get_board_parts {
      return [lsearch -all -inline -glob $::board_parts $first]
    }
    add_files {
      foreach file $plain {
        if {![file exists $file]} { error "add_files: file must exist, got $file" }
        lappend ::files $file
      }
    }
    ipx::package_project {
      if {![dict exists $call -root_dir]} { error "$name: option -root_dir must be given" }
    }
    ipx::get_bus_interfaces {
      return [expr {$first in $::interfaces ? "interface:$first" : ""}]
    }
    ipx::infer_bus_interface { lappend ::interfaces [expr {[llength $first] == 1 ? $first : [common $first]}] }
    ipx::get_* { return "" }
    ipx::add_* { return "[namespace tail $name]:$first" }
    create_bd_cell {
      if {[dict get $call -type] ne "ip"} { error "$name: type must be ip" }
      if {$first in $::objects} { error "$name: cell must be new, got $first" }
      lappend ::objects $first
    }
    get_bd_cells {
      if {$first ni $::objects} { error "$name: cell must exist, got $first" }
      return $first
    }
    get_bd_pins - get_bd_intf_pins - get_bd_addr_spaces - get_bd_addr_segs {
      set cell [lindex [split $first /] 0]
      if {$cell ni $::objects} { error "$name: cell of $first must exist" }
      return $first
    }
    get_files { return [file join $::project $first] }
    make_wrapper {
      set path [file join $::project wrapper.v]
      close [open $path w]
      return $path
    }
    get_runs { return $first }
    get_timing_paths { return [list "path:[dict get $call -delay_type]"] }
    get_property { return [property $first [lindex $plain 1]] }
    check_timing { write_check [dict get $call -file] }
    launch_runs { if {[dict exists $call -to_step]} { write_outputs } }
  }
  return ""
}

proc common {ports} {
  set prefix [lindex $ports 0]
  foreach port $ports {
    while {[string first $prefix $port] != 0} { set prefix [string range $prefix 0 end-1] }
  }
  return [string trimright $prefix _]
}

proc property {name object} {
  switch -- $name {
    PROGRESS { return "100%" }
    STATUS { return "complete" }
    SLACK { return $::slack }
    DIRECTORY {
      return [expr {$object eq "current_project" ? $::project : [file join $::project runs $object]}]
    }
  }
  error "get_property: property must be known, got $name"
}

# The table of contents of a report, in which each kind of problem has its count.
proc write_check {path} {
  set channel [open $path w]
  set number 0
  foreach kind {no_clock constant_clock pulse_width_clock unconstrained_internal_endpoints no_input_delay
      no_output_delay multiple_clock generated_clocks loops partial_input_delay partial_output_delay latch_loops} {
    set count [expr {$kind eq "unconstrained_internal_endpoints" ? $::unconstrained : 0}]
    puts $channel "[incr number]. checking $kind ($count)"
  }
  close $channel
}

# What the step write_bitstream leaves behind.
proc write_outputs {} {
  set folder [file join $::project runs impl_1]
  set handoff [file join $::project vdla_system.gen sources_1 bd vdla_system hw_handoff]
  file mkdir $folder $handoff
  set clock {NAME="PCW_FPGA_FCLK0_ENABLE" VALUE="1"}
  if {"zynq_ultra_ps_e_0" in $::objects} {
    set clock {NAME="PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ" VALUE="166.665"}
  }
  foreach {path text} [list [file join $folder vdla_system_wrapper.bit] bits [file join $handoff vdla_system.hwh] \
      "<PARAMETERS>\n<PARAMETER $clock/>\n</PARAMETERS>\n"] {
    set channel [open $path w]
    puts -nonewline $channel $text
    close $channel
  }
}

source $script
close $record
