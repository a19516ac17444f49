# SPDX-License-Identifier: Apache-2.0
.program "vector"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4x4
.tensor y role=output dtype=int32 shape=8x4
.uop first
.uop src=1
.uop src=2
.uop src=3 last

load uop dram=uops x_size=4
load inp dram=x x_size=32 signal=compute
vector add source=inp operand=src init=1 uop_end=4 loop1=8 acc1=1 src1=4 wait=load
vector shr operand=imm imm=2 loop1=8 acc1=1
vector max operand=imm imm=0 uop_begin=3 uop_end=4 loop1=8 acc1=1 emit=raw signal=store
store dram=y x_size=32 wait=compute
