# SPDX-License-Identifier: Apache-2.0
"""A layer for which machines are explored."""

import vdla


def dense():
    return vdla.definitions.dense(rows=6, in_features=32, out_features=32).output
