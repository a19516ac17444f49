# SPDX-License-Identifier: Apache-2.0
# The accelerator as an IP: its ports as interfaces, its registers, what identifies it.
#
# Invariant: the order of files in settings.tcl is the order in which synthesis reads them.

set ip_folder [file join $here build ip]
create_project -force vdla_ip [file join $here build ip_project] -part $part
set_property source_mgmt_mode None [current_project]

foreach file $rtl_files {
  add_files -norecurse [file join $here rtl $file]
}
set_property top $ip_top [current_fileset]

ipx::package_project -force -import_files -root_dir $ip_folder \
  -vendor $ip_vendor -library $ip_library -taxonomy /UserIP
set core [ipx::current_core]
set_property name $ip_name $core
set_property version $ip_version $core
set_property display_name "VDLA accelerator, $preset" $core
set_property description "VDLA accelerator, configuration $preset" $core
set_property supported_families {zynq Production zynquplus Production} $core

# The packager finds interfaces by the names of their ports; those that it did not find are stated.
proc ensure_interface {name ports kind core} {
  if {[llength [ipx::get_bus_interfaces -quiet $name -of_objects $core]] == 0} {
    ipx::infer_bus_interface $ports $kind $core
  }
  if {[llength [ipx::get_bus_interfaces -quiet $name -of_objects $core]] == 0} {
    error "package_ip: ports of the top must form the interface $name, got none"
  }
}

proc set_parameter {interface name value core} {
  set bus [ipx::get_bus_interfaces $interface -of_objects $core]
  set parameter [ipx::get_bus_parameters -quiet $name -of_objects $bus]
  if {[llength $parameter] == 0} {
    set parameter [ipx::add_bus_parameter $name $bus]
  }
  set_property value $value $parameter
}

foreach {name ports} $axi_interfaces {
  ensure_interface $name $ports xilinx.com:interface:aximm_rtl:1.0 $core
}
foreach clock $ip_clocks {
  ensure_interface $clock $clock xilinx.com:signal:clock_rtl:1.0 $core
}
ensure_interface aresetn aresetn xilinx.com:signal:reset_rtl:1.0 $core
ensure_interface $interrupt_pin $interrupt_pin xilinx.com:signal:interrupt_rtl:1.0 $core

# By these the cells between the accelerator and the memory are sized.
foreach {interface parameters} $axi_parameters {
  foreach {name value} $parameters {
    set_parameter $interface $name $value $core
  }
}
set_parameter aclk ASSOCIATED_BUSIF [join [dict keys $axi_interfaces] :] $core
set_parameter aclk ASSOCIATED_RESET aresetn $core
set_parameter aresetn POLARITY ACTIVE_LOW $core
set_parameter $interrupt_pin SENSITIVITY LEVEL_HIGH $core

# The registers, which the handoff file shows: name, offset, access, reset value, description, and
# fields of name, first bit, bits, description.
set map [ipx::get_memory_maps -quiet $control_interface -of_objects $core]
if {[llength $map] == 0} {
  set map [ipx::add_memory_map $control_interface $core]
  set_property slave_memory_map_ref $control_interface \
    [ipx::get_bus_interfaces $control_interface -of_objects $core]
}
set block [ipx::get_address_blocks -quiet reg0 -of_objects $map]
if {[llength $block] == 0} {
  set block [ipx::add_address_block reg0 $map]
}
set_property range $control_bytes $block
set_property width 32 $block
set_property usage register $block

foreach description $registers {
  lassign $description name offset access reset text fields
  set register [ipx::add_register $name $block]
  set_property address_offset $offset $register
  set_property size 32 $register
  set_property access $access $register
  set_property description $text $register
  foreach {field first bits about} $fields {
    set part_of_register [ipx::add_field $field $register]
    set_property bit_offset $first $part_of_register
    set_property bit_width $bits $part_of_register
    set_property access $access $part_of_register
    set_property description $about $part_of_register
  }
}

# What the driver compares with the registers before it runs a program.
foreach {name value} $ip_parameters {
  set parameter [ipx::add_user_parameter $name $core]
  set_property value_resolve_type user $parameter
  set_property value_format string $parameter
  set_property value $value $parameter
}

ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
close_project
