.program "demo"
.config name=tiny clock_mhz=50
.config batch=1 block_in=4 block_out=4 inp_bits=8 wgt_bits=8
.config inp_kib=1 wgt_kib=1 scl_kib=1 uop_kib=1 acc_kib=1 out_kib=1
.config command_depth=4 token_depth=8 axi_bits=32 burst_beats=4
.config dram.read_latency=12 dram.write_latency=5 dram.outstanding_reads=2 dram.outstanding_writes=2 dram.beat_cycles=1 dram.burst_gap=0
.tensor x role=input dtype=int8 shape=4x4 layout=NC nbytes=16
.tensor uops role=constant dtype=uop shape=2 layout="" nbytes=16
.uop acc=1 first
.uop wgt=2 last
.source "for i in range(4):"
load inp dram=x+0x1 x_size=2 signal=compute @0
load uop dram=uops x_size=2
gemm init=1 uop_end=2 wait=load
sync store
