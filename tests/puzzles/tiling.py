# SPDX-License-Identifier: Apache-2.0
def tile():
    """(blocks, rows) of a tile, at most 64 sums."""
    return 4, 16
