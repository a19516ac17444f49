"""From the RTL to a bitstream with Vivado: scripts, and the facts of board and machine for them."""
