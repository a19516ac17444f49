# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.templates`, as `vdla.templates`."""

from vdla.compiler.templates import *
from vdla.compiler.templates import __all__ as __all__
from vdla.compiler.templates import __doc__ as __doc__
