# SPDX-License-Identifier: Apache-2.0
.program "one_gemm"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor y role=output dtype=int32 shape=8x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8
load wgt dram=w signal=compute
gemm init=1 loop1=8 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=32 wait=compute
