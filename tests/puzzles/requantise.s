# SPDX-License-Identifier: Apache-2.0
.program "requantise"
.config preset=tiny
.tensor x role=input dtype=int8 shape=16x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor scale role=constant dtype=int64 shape=1x4
.tensor y role=output dtype=int8 shape=16x4
.data scale 640000000300000a
.data scale 640000000300000a
.data scale 640000000300000a
.data scale 640000000300000a
.uop first last

load wgt dram=w
load scl dram=scale
load inp dram=x x_size=16 signal=compute
load uop dram=uops
gemm init=1 loop1=16 acc1=1 src1=1 emit=requant zero_point=5 clip_lo=0 clip_hi=100 wait=load signal=store
store dram=y x_size=16 wait=compute
