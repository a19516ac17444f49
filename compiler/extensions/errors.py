"""The errors of extensions."""

from vdla.support.errors import Error


class ExtensionError(Error, ValueError):
    """A declaration that contradicts itself or its machine; the message begins with its line."""


class LayerError(Error, ValueError):
    """A layer for which the program of an extension is not made; the message is the reason."""
