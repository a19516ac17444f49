# SPDX-License-Identifier: Apache-2.0
.program "first_load"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4
.tensor y role=output dtype=int32 shape=8x4
.uop first last                      # what VECTOR repeats: one step on one entry

load uop dram=uops
load acc dram=x x_size=8 widen=1
vector add operand=imm imm=1 loop1=8 acc1=1 emit=raw signal=store
store dram=y x_size=32 wait=compute  # an entry of sums fills 4 entries of the output buffer
