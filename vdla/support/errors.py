"""`Error`: the base of every error that VDLA raises on purpose.

Each layer derives its own from it and from the built-in class that says what kind of error it is, so that
`except vdla.Error` catches all of them and `except ValueError` still catches wrong arguments.
"""

from __future__ import annotations


class Error(Exception):
    """Something that VDLA refuses or cannot do; the message says where, which rule, and what it got."""
