# SPDX-License-Identifier: Apache-2.0
"""The machines whose RTL is mutated: small, and together they elaborate every module."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from vdla.hardware.config import Config
from vdla.verification.programs.random_machines import FOUR_PORTS

_TINY = Config.preset("tiny")


@cache
def mutated_machines() -> tuple[Config, ...]:
    """The machines, the least first.

    `deep` has adder trees, FIFOs whose depth is not a power of two, entries of several beats, also
    of results; `ports` four memory ports, at which a burst can have more than 128 beats; `double`
    an array at twice the clock; `extended` instructions of its own, with state, a stage on the way
    out, the use of the array, and results in the input buffer; `at_once` instructions whose steps
    end in the cycle in which they begin, and that read groups of entries.
    """
    from vdla.compiler.extensions import extend
    from vdla.verification.generated_tests.datapath_samples import AT_ONCE, GROUPS
    from vdla.verification.generated_tests.input_samples import handed, woven
    from vdla.verification.generated_tests.planted import sample_machine

    return (
        _TINY,
        replace(_TINY, name="deep", batch=2, block_in=16, block_out=8, axi_bits=64, wgt_kib=4, command_depth=5),
        replace(FOUR_PORTS, name="ports", burst_beats=40),
        replace(_TINY, name="double", array_rate=2, block_in=16, block_out=8, axi_bits=64, wgt_kib=4),
        replace(extend(sample_machine(), handed(2), woven(1)), name="extended"),
        replace(extend(_TINY, *AT_ONCE, *GROUPS, handed(0)), name="at_once"),
    )


# --- environment ----------------------------------------------------------------------------------
# Variables of the environment that make the tests of the modules test other RTL than the
# repository's.

FOLDER_VARIABLE = "VDLA_TEST_RTL"
"""The folder of the RTL."""

ARGUMENT_VARIABLE = "VDLA_TEST_PLUSARGS"
"""Arguments of the simulation, between blanks."""
