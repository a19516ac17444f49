# SPDX-License-Identifier: Apache-2.0
# From the RTL to BOARD.bit and BOARD.hwh. Start it in any folder, with Vivado 2022.1 or later:
#
#   vivado -mode batch -source build.tcl
#
# The steps are in files of their own and share the variables of settings.tcl. A step that fails
# ends Vivado with an error.

set here [file dirname [file normalize [info script]]]

source [file join $here settings.tcl]
source [file join $here environment.tcl]
source [file join $here package_ip.tcl]
source [file join $here block_design.tcl]
source [file join $here implement.tcl]
