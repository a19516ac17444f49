# SPDX-License-Identifier: Apache-2.0
.program "deadlock"
.config preset=tiny
.tensor x role=input dtype=int8 shape=2x8x4
.tensor y role=output dtype=int32 shape=2x8x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8 signal=compute
vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load signal=load
vector max operand=imm imm=0 loop1=8 acc1=1 emit=raw signal=store
load inp dram=x+8 x_size=8 wait=compute signal=compute
vector mov source=inp operand=src acc=8 loop1=8 acc1=1 src1=1 wait=load
vector max operand=imm imm=0 acc=8 loop1=8 acc1=1 out=8 emit=raw signal=store
store dram=y x_size=32 wait=compute
store sram=32 dram=y+32 x_size=32 wait=compute
