# SPDX-License-Identifier: Apache-2.0
"""From the RTL to a bitstream with Vivado: scripts, and the facts of board and machine for them."""
