# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.te`, as `vdla.te`."""

from vdla.compiler.te import *
from vdla.compiler.te import __all__ as __all__
from vdla.compiler.te import __doc__ as __doc__
