# SPDX-License-Identifier: Apache-2.0
"""Assembly text: `assemble(disassemble(program))` is the same program, byte for byte.

.config preset=tiny
.tensor x role=input dtype=int8 shape=4x4 nbytes=16
load inp dram=x+0x1 x_size=2 signal=compute
sync compute wait=load
"""

from vdla.hardware.asm.assembler import assemble, instruction_lines
from vdla.hardware.asm.disassembler import disassemble, instruction_text
from vdla.hardware.asm.lines import AsmError

__all__ = ["AsmError", "assemble", "disassemble", "instruction_lines", "instruction_text"]
