# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.intrinsics`, as `vdla.intrinsics`."""

from vdla.compiler.intrinsics import *
from vdla.compiler.intrinsics import __all__ as __all__
from vdla.compiler.intrinsics import __doc__ as __doc__
