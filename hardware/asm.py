"""Assembly text: `disassemble(program)` and `assemble(text)` are inverses, to the byte and to the program hash.

.config preset=tiny
.tensor x role=input dtype=int8 shape=4x4 nbytes=16
load inp dram=x+0x1 x_size=2 signal=compute
sync compute wait=load
"""

from vdla.hardware.asm_lines import AsmError
from vdla.hardware.assembler import assemble
from vdla.hardware.disassembler import disassemble, instruction_text

__all__ = ["AsmError", "assemble", "disassemble", "instruction_text"]
