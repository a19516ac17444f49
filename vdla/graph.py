# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.graph.operators`, as `vdla.graph`."""

from vdla.compiler.graph.operators import *
from vdla.compiler.graph.operators import __all__ as __all__
from vdla.compiler.graph.operators import __doc__ as __doc__
