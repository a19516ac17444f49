"""Compiled networks: from a model to one file, and from the file to results."""

from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.errors import ModelError
from vdla.runtime.network.model import Model

__all__ = ["Model", "ModelError", "compile_network"]
