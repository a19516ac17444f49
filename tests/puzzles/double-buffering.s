# SPDX-License-Identifier: Apache-2.0
.program "double_buffering"
.config preset=tiny
.tensor x role=input dtype=int8 shape=4x4x32x4
.tensor w role=weight dtype=int8 shape=4x4x4
.tensor y role=output dtype=int32 shape=4x32x4
.uop src=0 wgt=0 first
.uop src=32 wgt=1
.uop src=64 wgt=2
.uop src=96 wgt=3 last

load uop dram=uops x_size=4
load wgt dram=w x_size=4

load inp dram=x x_size=128 signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src1=1 emit=raw wait=load signal=load,store
store dram=y x_size=128 wait=compute signal=compute

load inp sram=128 dram=x+128 x_size=128 signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src=128 out=32 src1=1 emit=raw wait=load signal=load,store
store sram=128 dram=y+128 x_size=128 wait=compute signal=compute

load inp dram=x+256 x_size=128 wait=compute signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src1=1 emit=raw wait=load,store signal=store
store dram=y+256 x_size=128 wait=compute

load inp sram=128 dram=x+384 x_size=128 wait=compute signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src=128 out=32 src1=1 emit=raw wait=load,store signal=store
store sram=128 dram=y+384 x_size=128 wait=compute
