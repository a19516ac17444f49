# SPDX-License-Identifier: Apache-2.0
.program "padding"
.config preset=tiny
.tensor x role=input dtype=int8 shape=4x4x4
.tensor w role=weight dtype=int8 shape=3x3x4x4
.tensor y role=output dtype=int32 shape=4x4x4
.uop src=0 wgt=0 first               # the taps: 6 entries from row to row
.uop src=1 wgt=1
.uop src=2 wgt=2
.uop src=6 wgt=3
.uop src=7 wgt=4
.uop src=8 wgt=5
.uop src=12 wgt=6
.uop src=13 wgt=7
.uop src=14 wgt=8 last

load uop dram=uops x_size=9
load wgt dram=w x_size=9
load inp dram=x y_size=4 x_size=4 y_stride=4 y_before=1 y_after=1 x_before=1 x_after=1 pad_value=-3 signal=compute
gemm init=1 uop_end=9 loop0=4 acc0=4 src0=6 loop1=4 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
