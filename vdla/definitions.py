# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.operators.definitions`, as `vdla.definitions`."""

from vdla.compiler.operators.definitions import *
