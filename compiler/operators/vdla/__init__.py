"""Operator templates: a tensor expression and its schedule for any shape and configuration.

from vdla.compiler.operators.vdla import conv2d  # each template is a function, and in the module of its name
"""

from vdla.compiler.operators.vdla.conv2d import conv2d
from vdla.compiler.operators.vdla.conv2d_transpose import conv2d_transpose
from vdla.compiler.operators.vdla.dense import dense
from vdla.compiler.operators.vdla.depthwise_conv2d import depthwise_conv2d
from vdla.compiler.operators.vdla.pool2d import pool2d
from vdla.compiler.operators.vdla.residual_add import residual_add

__all__ = ["conv2d", "conv2d_transpose", "dense", "depthwise_conv2d", "pool2d", "residual_add"]
