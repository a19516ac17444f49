# SPDX-License-Identifier: Apache-2.0
"""How fast a memory does a layer need? One program, timed behind several, compiled once.

Timing needs no data: a program's cycles depend on its configuration and the DRAM model alone.
"""

from dataclasses import replace

import vdla
from vdla import Config, Dram, templates

config = Config.preset("pynq_z1")

for threads in (1, 2):
    # C10 of ResNet-18.
    operator = templates.conv2d(
        config,
        batch=1, height=14, width=14, in_channels=256, out_channels=512, kernel=3, strides=2, pads=1,
        virtual_threads=threads,
    )  # fmt: skip
    print(f"C10, {threads} virtual thread{'s' * (threads > 1)}")
    for latency in (10, 40, 160, 640):
        memory = Dram(read_latency=latency)
        statistics = vdla.simulate(operator.program, config=replace(config, dram=memory), mode="timing").statistics
        cycles, utilisation = statistics.total_cycles, statistics.utilisation
        print(f"  read latency {latency:4}: {cycles:9,} cycles, utilisation {utilisation:.1%}")
