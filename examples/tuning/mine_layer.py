# SPDX-License-Identifier: Apache-2.0
"""A layer whose options are choices of the tuner."""

from vdla import Config, templates


def layer(cfg):
    """A convolution, whose blocks hold patches or channels, on one or two virtual threads."""
    packing = cfg.choice("packing", ["patches", "channels"])
    threads = cfg.choice("threads", [1, 2])
    shape = dict(batch=1, height=6, width=6, in_channels=8, out_channels=8, kernel=3, pads=1)
    config = Config.preset("tiny")
    return templates.conv2d(config, **shape, packing=packing, virtual_threads=threads).program


def unordered(cfg):
    cfg.choice("order", [])
