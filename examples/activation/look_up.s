.program "look_up"
.config preset=tiny extension="lut"
.tensor sums role=input dtype=int32 shape=2x4
.tensor table role=weight dtype=int8 shape=4x4
.tensor out role=output dtype=int32 shape=2x4
.uop first last
load uop dram=uops
load acc dram=sums x_size=2
load wgt dram=table signal=compute
lut shift=1 loop0=2 acc0=1 emit=raw wait=load signal=store
store dram=out x_size=8 wait=compute
