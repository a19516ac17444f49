"""The error of extensions."""

from vdla.support.errors import Error


class ExtensionError(Error, ValueError):
    """A declaration that contradicts itself or its machine; the message begins with its line."""
