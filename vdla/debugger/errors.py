# SPDX-License-Identifier: Apache-2.0
"""The debugger's error."""

from __future__ import annotations

from vdla.support.errors import Error


class DebugError(Error, ValueError):
    """A request that the debugger cannot meet; the message names the rule and the value."""
