"""NVIDIA's driver as a library: its functions called by name, each with its result checked."""

from __future__ import annotations

import sys
from ctypes import CDLL, c_char_p, c_int
from functools import cache
from typing import Any

from vdla.runtime.cuda.errors import CudaDeviceError
from vdla.runtime.cuda.functions import FUNCTIONS, NOT_READY, SUCCESS

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class CudaDriver:
    """The functions of the library at `path`, initialised."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            library = CDLL(path)
        except OSError:
            raise CudaDeviceError(f"cuda: NVIDIA's driver must be installed, got no {path}") from None
        self._functions = {name: _declared(library, name) for name in FUNCTIONS}
        self.call("cuda: the driver must start", "cuInit", 0)

    def call(self, rule: str, name: str, *arguments: Any) -> None:  # noqa: ANN401  of C
        """Call a function.

        Raises:
            CudaDeviceError: it does not succeed; `rule` says where and what it was for.
        """
        self._check(rule, name, self._functions[name](*arguments))

    def is_done(self, rule: str, name: str, *arguments: Any) -> bool:  # noqa: ANN401
        """Call a function that asks for a state; whether the work is done.

        Raises:
            CudaDeviceError: as `call`.
        """
        code = self._functions[name](*arguments)
        if code != NOT_READY:
            self._check(rule, name, code)
        return bool(code == SUCCESS)

    def _check(self, rule: str, name: str, code: int) -> None:
        if code != SUCCESS:
            raise CudaDeviceError(f"{rule}, got {self._described(code)} from {name.removesuffix('_v2')}")

    def _described(self, code: int) -> str:
        """The name and the text of an error."""
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if self._functions[function](code, text) != SUCCESS or text.value is None:
                return f"error {code}"
            texts.append(text.value.decode())
        return f"{texts[0]} ({texts[1]})"


@cache
def cuda_driver() -> CudaDriver:
    """The driver of this machine, loaded once.

    Raises:
        CudaDeviceError: there is none, or it does not start, as without a device.
    """
    return CudaDriver()


def _declared(library: CDLL, name: str) -> Any:  # noqa: ANN401  a function of C
    """A function with its types."""
    try:
        function = library[name]
    except AttributeError:
        raise CudaDeviceError(f"cuda: the driver must have {name}, got an older one; install a newer driver") from None
    function.argtypes, function.restype = FUNCTIONS[name], c_int
    return function
