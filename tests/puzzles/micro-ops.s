# SPDX-License-Identifier: Apache-2.0
.program "micro_ops"
.config preset=tiny
.tensor x role=input dtype=int8 shape=2x8x4
.tensor w role=weight dtype=int8 shape=3x2x4x4
.tensor y role=output dtype=int32 shape=3x8x4
.uop first                           # micro-op 0: begins a sum
.uop src=8 wgt=1 last                # micro-op 1: finishes it

load uop dram=uops x_size=2
load inp dram=x x_size=16
load wgt dram=w x_size=2 signal=compute
load wgt sram=2 dram=w+8 x_size=4 signal=compute
gemm uop_end=2 init=1 loop1=8 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=32 wait=compute
gemm uop_end=2 init=1 acc=8 out=8 wgt=2 loop0=2 acc0=8 wgt0=2 loop1=8 acc1=1 src1=1 emit=raw wait=load signal=store
store sram=32 dram=y+32 x_size=64 wait=compute
