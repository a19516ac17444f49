# SPDX-License-Identifier: Apache-2.0
# Synthesis, implementation, the check of timing, and the two files for the board.
#
# Invariant: files are written only for a design that meets its timing.

proc run_step {run args} {
  launch_runs $run {*}$args -jobs $::jobs
  wait_on_run $run
  if {[get_property PROGRESS [get_runs $run]] ne "100%"} {
    error "implement: run $run must complete, got [get_property STATUS [get_runs $run]]"
  }
}

# The worst slack in ns of set-up (max) or hold (min).
proc worst_slack {kind} {
  set paths [get_timing_paths -delay_type $kind -max_paths 1]
  if {[llength $paths] == 0} {
    error "implement: design must have timed paths of delay type $kind, got none"
  }
  return [get_property SLACK [lindex $paths 0]]
}

# What check_timing counts of one kind, which must be nothing: a path without a constraint is not
# timed, and its slack is in no report.
proc require_constrained {text kind} {
  if {![regexp "checking $kind \\((\\d+)\\)" $text -> count]} {
    error "implement: build/check_timing.rpt must have a count of $kind, got none"
  }
  if {$count != 0} {
    error "implement: design must have 0 $kind, got $count; see build/check_timing.rpt"
  }
}

proc read_text {path} {
  set channel [open $path r]
  fconfigure $channel -encoding utf-8
  set text [read $channel]
  close $channel
  return $text
}

run_step synth_1
run_step impl_1

open_run impl_1
report_timing_summary -file [file join $here build timing.rpt]
report_utilization -file [file join $here build utilization.rpt]
report_clocks -file [file join $here build clocks.rpt]
report_cdc -details -file [file join $here build cdc.rpt]
report_methodology -file [file join $here build methodology.rpt]
report_drc -file [file join $here build drc.rpt]
check_timing -file [file join $here build check_timing.rpt]
set checked [read_text [file join $here build check_timing.rpt]]
foreach kind {no_clock unconstrained_internal_endpoints loops latch_loops} {
  require_constrained $checked $kind
}
foreach kind {max min} {
  set slack [worst_slack $kind]
  puts "implement: worst slack of delay type $kind is $slack ns"
  if {$slack < 0} {
    error "implement: worst slack of delay type $kind must be at least 0 ns, got $slack ns; see build/timing.rpt"
  }
}
close_design

run_step impl_1 -to_step write_bitstream

set project [get_property DIRECTORY [current_project]]
set bit_file [file join $here $output.bit]
set hwh_file [file join $here $output.hwh]
file copy -force [file join [get_property DIRECTORY [get_runs impl_1]] ${design}_wrapper.bit] $bit_file

# pynq 4.0.0 asks for the frequency of an enabled clock under the name that Zynq UltraScale+ has
# for it, and fails where there is none.
proc with_clock_frequency {text parameter mhz} {
  if {[string first $parameter $text] >= 0} {
    return $text
  }
  set added "<PARAMETER NAME=\"$parameter\" VALUE=\"$mhz\"/>"
  set anchor {<PARAMETER NAME="PCW_FPGA_FCLK0_ENABLE"}
  if {[string first $anchor $text] < 0} {
    error "implement: handoff file must have the parameter PCW_FPGA_FCLK0_ENABLE, got none"
  }
  return [string map [list $anchor "$added\n$anchor"] $text]
}

set text [read_text [file join $project $design.gen sources_1 bd $design hw_handoff $design.hwh]]
set channel [open $hwh_file w]
fconfigure $channel -encoding utf-8
puts -nonewline $channel [with_clock_frequency $text PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ $clock_mhz]
close $channel

puts "implement: $bit_file and $hwh_file are written"
