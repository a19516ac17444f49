# SPDX-License-Identifier: Apache-2.0
.program "race"
.config preset=tiny
.tensor x role=input dtype=int8 shape=24x4
.tensor y role=output dtype=int32 shape=24x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8 signal=compute
load inp sram=8 dram=x+8 x_size=16 signal=compute
vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load
vector mul operand=imm imm=3 loop1=8 acc1=1 emit=raw signal=store
store dram=y x_size=32 wait=compute
vector mov source=inp operand=src src=8 acc=8 loop1=16 acc1=1 src1=1 wait=load
vector mul operand=imm imm=3 acc=8 out=8 loop1=16 acc1=1 emit=raw signal=store
store sram=32 dram=y+32 x_size=64 wait=compute
