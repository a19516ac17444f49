# SPDX-License-Identifier: Apache-2.0
.program "bias"
.config preset=tiny
.tensor x role=input dtype=int8 shape=16x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor bias role=input dtype=int32 shape=4
.tensor y role=output dtype=int32 shape=16x4
.uop first last

load wgt dram=w
load inp dram=x x_size=16 signal=compute
load uop dram=uops
load acc sram=32 dram=bias
vector mov source=acc operand=src src=32 loop1=16 acc1=1
gemm loop1=16 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
