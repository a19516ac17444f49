# SPDX-License-Identifier: Apache-2.0
"""`Error`: the base of every error that VDLA raises; `Notice`: that of every warning to a user.

The error of a layer derives from it and from the built-in class of its kind,
so that `except vdla.Error` catches all of them and `except ValueError` those of arguments.
"""

from __future__ import annotations


class Error(Exception):
    """The base of all errors; the message names the place, the rule and the value."""


class Notice(UserWarning):
    """The base of all warnings: work goes on, in a way that the message names."""
