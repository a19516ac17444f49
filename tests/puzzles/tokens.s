# SPDX-License-Identifier: Apache-2.0
.program "tokens"
.config preset=tiny
.tensor x role=input dtype=int8 shape=16x4
.tensor y role=output dtype=int32 shape=16x4
.uop first last

load uop dram=uops
load inp dram=x x_size=16 signal=compute
vector mov source=inp operand=src loop1=16 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
