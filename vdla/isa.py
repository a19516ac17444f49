# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.hardware.isa`, as `vdla.isa`."""

from vdla.hardware.isa import *
from vdla.hardware.isa import __all__ as __all__
from vdla.hardware.isa import __doc__ as __doc__
