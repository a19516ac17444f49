# SPDX-License-Identifier: Apache-2.0
.program "strided_convolution"
.config preset=tiny
.tensor x role=input dtype=int8 shape=9x9x4
.tensor w role=weight dtype=int8 shape=3x3x4x4
.tensor y role=output dtype=int32 shape=4x4x4
.uop src=0 wgt=0 first
.uop src=1 wgt=1
.uop src=2 wgt=2
.uop src=9 wgt=3
.uop src=10 wgt=4
.uop src=11 wgt=5
.uop src=18 wgt=6
.uop src=19 wgt=7
.uop src=20 wgt=8 last

load uop dram=uops x_size=9
load wgt dram=w x_size=9
load inp dram=x x_size=81 signal=compute
gemm init=1 uop_end=9 loop0=4 acc0=4 src0=18 loop1=4 acc1=1 src1=2 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
