"""From a model to one file: passes, devices, kernels, programs."""

from vdla.runtime.executor import Model, ModelError
from vdla.runtime.network.compile_network import compile_network, kernel_graphs

__all__ = ["Model", "ModelError", "compile_network", "kernel_graphs"]
