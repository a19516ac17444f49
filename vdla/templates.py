"""The public names of `vdla.compiler.operators.vdla`, as `vdla.templates`."""

from vdla.compiler.operators.vdla import *
from vdla.compiler.operators.vdla import __all__ as __all__
from vdla.compiler.operators.vdla import __doc__ as __doc__
