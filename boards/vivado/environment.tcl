# SPDX-License-Identifier: Apache-2.0
# What the flow needs of Vivado: its version and the files of the board.

if {![regexp {^(\d+)\.(\d+)} [version -short] -> major minor]} {
  error "vivado: version must look like 2022.1, got [version -short]"
}
if {$major < 2022} {
  error "vivado: version must be 2022.1 or later, got [version -short]"
}

# The newest installed version of the board's description, which has the settings of its DRAM, its
# clocks and its pins.
proc find_board_part {wanted files} {
  set family [join [lrange [split $wanted :] 0 2] :]
  set found [lsort -dictionary [get_board_parts -quiet "$family:*"]]
  if {[llength $found] == 0} {
    error "vivado: board files of $family must be installed, got none; they are at $files"
  }
  return [lindex $found end]
}

set installed_board_part [find_board_part $board_part $board_files]
