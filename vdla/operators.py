# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.operators`, as `vdla.operators`."""

from vdla.compiler.operators import *
from vdla.compiler.operators import __all__ as __all__
from vdla.compiler.operators import __doc__ as __doc__
