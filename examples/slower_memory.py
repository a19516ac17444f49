"""How much memory does a layer need? One program, timed behind many memories without compiling it again.

Timing needs no data: a program's cycles depend on its configuration and the DRAM model alone.
"""

from dataclasses import replace

from vdla import Config, Dram, simulate
from vdla.compiler.operators.workloads import workload
from vdla.runtime.layers import layer_operator

config = Config.preset("pynq_z1")
layer = workload("C10")

for threads in (1, 2):
    program = layer_operator(layer, config, threads).program
    print(f"{layer.name}, {threads} virtual thread{'s' * (threads > 1)}")
    for latency in (10, 40, 160, 640):
        memory = Dram(read_latency=latency)
        stats = simulate(program, config=replace(config, dram=memory), mode="timing").statistics
        assert stats is not None
        print(f"  read latency {latency:4}: {stats.total_cycles:9,} cycles, utilisation {stats.utilisation:.1%}")
