# SPDX-License-Identifier: Apache-2.0
.program "reduction"
.config preset=tiny
.tensor x role=input dtype=int8 shape=4x16x4
.tensor w role=weight dtype=int8 shape=4x4x4
.tensor y role=output dtype=int32 shape=16x4
.uop first
.uop src=8 wgt=1
.uop src=16 wgt=2
.uop src=24 wgt=3 last

load uop dram=uops x_size=4
load wgt dram=w x_size=4
load inp dram=x y_size=4 y_stride=16 x_size=8 signal=compute
load inp sram=32 dram=x+8 y_size=4 y_stride=16 x_size=8 signal=compute
gemm init=1 uop_end=4 loop1=8 acc1=1 src1=1 emit=raw wait=load signal=store
gemm init=1 uop_end=4 loop1=8 acc=8 src=32 out=8 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=32 wait=compute
store sram=32 dram=y+32 x_size=32 wait=compute
