.program "chain"
.config preset=tiny extension="hand"
.tensor x role=input dtype=int8 shape=16x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor out role=output dtype=int32 shape=16x4
.uop first last
load uop dram=uops
load wgt dram=w
load inp dram=x x_size=16 signal=compute
gemm init=1 loop0=16 acc0=1 src0=1 wait=load
hand shift=6 loop0=16 acc=16 acc0=1 src0=1
gemm init=1 loop0=16 acc0=1 src=16 src0=1 emit=raw signal=store
store dram=out x_size=64 wait=compute
