# SPDX-License-Identifier: Apache-2.0
"""Published energies of operations and memories: the one place of all coefficients, each with its
source. Picojoules.

There is no table of an FPGA: vendors publish the power of whole designs through their estimators,
not energies of an operation, and figures in papers are of one design each. Measure a board and
give the figures as a file (`load_table`).
"""

from __future__ import annotations

from vdla.simulator.energy.table import Coefficients, EnergyTable

# M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, figure 1.1.9,
# "rough energy costs" in 45 nm at 0.9 V.
NM_45 = EnergyTable(
    name="45nm",
    source='M. Horowitz, "Computing\'s energy problem", ISSCC 2014, figure 1.1.9: 45 nm, 0.9 V',
    coefficients=Coefficients(
        add={8: 0.03, 32: 0.1},  # integer add, by bits
        multiply={8: 0.2, 32: 3.1},  # integer multiply, by bits
        memory={8: 10.0, 32: 20.0, 1024: 100.0},  # 64-bit cache access, by KiB
        dram=(1300.0, 1950.0, 2600.0),  # 64 bits of DRAM: 1.3 to 2.6 nJ, and the middle of that
    ),
    # The source calls its figures rough and gives no error: a factor of 2 is this project's.
    error=2.0,
)

# N. P. Jouppi et al., "Ten Lessons From Three Generations Shaped Google's TPUv4i", ISCA 2021,
# table 2, column 7 nm, which continues the table above.
NM_7 = EnergyTable(
    name="7nm",
    source='N. P. Jouppi et al., "Ten Lessons From Three Generations", ISCA 2021, table 2: 7 nm',
    coefficients=Coefficients(
        add={8: 0.007, 32: 0.03},  # integer add, by bits
        multiply={8: 0.07, 32: 1.48},  # integer multiply, by bits
        memory={8: 7.5, 32: 8.5, 1024: 14.0},  # 64-bit SRAM access, by KiB
        dram=(650.0, 1300.0, 2600.0),  # 64 bits of DDR3/4: 1.3 nJ, with the error below
    ),
    # As above: the source gives no error.
    error=2.0,
)

TABLES = {table.name: table for table in (NM_45, NM_7)}
