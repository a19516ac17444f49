.program "through_dram"
.config preset=tiny extension="hand"
.tensor x role=input dtype=int8 shape=16x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor s role=weight dtype=int64 shape=4
.tensor middle role=scratch dtype=int8 shape=16x4
.tensor out role=output dtype=int32 shape=16x4
.uop first last
load uop dram=uops
load wgt dram=w
load scl dram=s
load inp dram=x x_size=16 signal=compute
gemm init=1 loop0=16 acc0=1 src0=1 emit=requant clip_hi=127 wait=load signal=store
store dram=middle x_size=16 wait=compute signal=compute
sync compute wait=store signal=load
load inp dram=middle sram=16 x_size=16 wait=compute signal=compute
gemm init=1 loop0=16 acc0=1 src=16 src0=1 emit=raw wait=load signal=store
store dram=out x_size=64 wait=compute
