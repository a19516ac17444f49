"""The errors of intrinsics: a declaration that contradicts itself, and a loop nest that does not
match one."""

from vdla.support.errors import Error


class IntrinsicError(Error, ValueError):
    """A declaration that contradicts itself."""


class TensorizeError(Error, ValueError):
    """A loop nest that does not match the intrinsic; the message gives the remedy."""


class AxisOutsideError(TensorizeError):
    """An axis of the entry is driven by a loop outside of the nest."""
