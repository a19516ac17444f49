# SPDX-License-Identifier: Apache-2.0
"""Whether compilations certify the programs that they make: an option, or the environment."""

from __future__ import annotations

import os

_OFF = "VDLA_CERTIFICATE"


def certifies(chosen: bool | None) -> bool:
    """What was chosen; if nothing was, yes, unless VDLA_CERTIFICATE is 0."""
    return os.environ.get(_OFF) != "0" if chosen is None else chosen
