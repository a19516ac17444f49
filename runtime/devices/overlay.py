# SPDX-License-Identifier: Apache-2.0
"""A bitstream on a board, loaded through PYNQ: the accelerator in it, and the board's memory.

PYNQ is imported in functions only: other devices work without it. On a host it is the client of
PYNQ.remote, and every access is a call to the board.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.runtime.devices.board_clock import BoardClock
from vdla.runtime.devices.board_link import BoardLink, await_board, limit_calls, one_line
from vdla.runtime.devices.client_entry import NoteFiles, note_files
from vdla.runtime.devices.completion import InterruptWait, interrupt_wait
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.handoff import IP_VLNV
from vdla.runtime.devices.installed_overlays import installed_bitstreams

OVERLAYS = "VDLA_OVERLAYS"
"""The environment variable with the folder of bitstreams."""

ENVIRONMENT = Path("/etc/profile.d/pynq_venv.sh")
"""Of images of PYNQ: what a shell reads to find PYNQ's Python."""
_CALL_S = 120.0  # a simulated board may take long to answer
_MEMINFO = "/proc/meminfo"
_FIRMWARE = "/lib/firmware/"
_HASH_DIGITS = 12
_NO_INTERRUPT = "Interrupts are not yet implemented for remote devices|Interrupt .* not created"


@dataclass(frozen=True, slots=True)
class LoadedOverlay:
    """What the driver uses of a loaded overlay.

    `remote`: each access is a call to another machine. `parameters` are those of the accelerator in
    the hardware handoff file. `await_board` waits for a board that was lost. `files` are those of a
    board that has a note on its clients, `file` is the bitstream's name there, after its content.
    """

    mmio: Any
    allocate: Callable[[int], Any]
    parameters: Mapping[str, str]
    remote: bool
    interrupt: InterruptWait | None
    meminfo: Callable[[], str]
    await_board: Callable[[], None]
    clock: BoardClock
    files: NoteFiles | None
    file: str

    @property
    def coherent(self) -> bool:
        """Whether the accelerator's memory port sees the processor's caches."""
        return self.parameters.get("COHERENT", "0") == "1"


# --- files ----------------------------------------------------------------------------------------


def find_bitstream(where: str, config: Config, given: object) -> Path:
    """The bitstream to load, beside its .hwh; DeviceError where one of both is missing."""
    path = _bitstream(where, config, given)
    if path.suffix != ".bit":
        raise DeviceError(f"{where}: bitstream must be a .bit file, got {path}")
    if not path.is_file():
        raise DeviceError(f"{where}: bitstream must exist, got {path}")
    handoff = path.with_suffix(".hwh")
    if not handoff.is_file():
        raise DeviceError(
            f"{where}: {handoff.name} must lie beside {path}, got none; "
            "Vivado writes both: copy the .hwh file of the same build"
        )
    return path.resolve()


def _bitstream(where: str, config: Config, given: object) -> Path:
    if given is not None:
        if not isinstance(given, (str, os.PathLike)):
            raise DeviceError(f"{where}: bitstream must be a path, got {given!r}")
        return Path(given)
    name = f"{config.name}.bit"
    folder = os.environ.get(OVERLAYS)
    folders = [Path(folder)] if folder else []
    near = [item / name for item in [*folders, Path()] if (item / name).is_file()]
    files = [*near, *(file for file in installed_bitstreams() if file.name == name)]
    if not files:
        raise DeviceError(
            f"{where}: bitstream must be given, or be {name} in the folder ${OVERLAYS}, the current one, or an "
            "installed package, got none; vdla board vivado builds it"
        )
    return files[0]


# --- PYNQ -----------------------------------------------------------------------------------------


def load_overlay(link: BoardLink, bitstream: Path, target: object = None, *, download: bool = True) -> LoadedOverlay:
    """Load a bitstream; `download=False` takes it as loaded.

    `target` is PYNQ's device, by default its active one.
    """
    pynq = _import_pynq(link.where)
    _driver_class()
    try:
        device = pynq.Device.active_device if target is None else target
        limit_calls(device, _CALL_S)
        await_board(device)
        _forget_clocks(pynq, device)
        remote = "REMOTE" in getattr(device, "capabilities", {})
        overlay = pynq.Overlay(str(bitstream), download=download and not remote, device=device)
        if download and remote:
            _upload(overlay, device, bitstream)
        name = _accelerator(link.where, overlay.ip_dict, bitstream)
        instance = _instance(overlay, name)
        return LoadedOverlay(
            mmio=instance.mmio,
            allocate=partial(_allocate, pynq, device),
            parameters={key: str(value) for key, value in overlay.ip_dict[name].get("parameters", {}).items()},
            remote=remote,
            interrupt=None if remote else _interrupt(instance),
            meminfo=partial(_meminfo, device, remote),
            await_board=partial(await_board, device),
            clock=BoardClock(link.where, pynq),
            files=note_files(device, remote=remote),
            file=_file_name(bitstream),
        )
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(
            f"{link.where}: bitstream {bitstream.name} must load, got {type(error).__name__}: {one_line(error)}"
            f"{_hint(error)}"
        ) from error


def _upload(overlay: Any, device: Any, bitstream: Path) -> None:  # noqa: ANN401  of PYNQ
    """Load an overlay on a remote board, which keeps the files that it was sent.

    PYNQ sends a bitstream only where the board has none of its name, so the name has a hash of the
    content. A file that the board cannot load may be the part that an interrupted upload left.
    """
    overlay.binfile_name = _file_name(bitstream)
    path = _FIRMWARE + overlay.binfile_name
    was_there = device.exists_file(path).exists
    try:
        overlay.download()
    except Exception:
        if not was_there:
            raise
        device.write_file(path, overlay.parser.bin_data)
        overlay.download()


def _file_name(bitstream: Path) -> str:
    """The name of a bitstream's file on a board, with a hash of its content."""
    digest = hashlib.sha256(bitstream.read_bytes()).hexdigest()
    return f"{bitstream.stem}-{digest[:_HASH_DIGITS]}.bin"


def _import_pynq(where: str) -> Any:  # noqa: ANN401  a module without types
    try:
        import pynq
        import pynq.overlay
    except ModuleNotFoundError as error:
        hint = ""
        if error.name == "pkg_resources":
            hint = "; pip install 'setuptools<82' has it"
        elif ENVIRONMENT.exists():
            hint = f"; it is in an environment of its own: as root, in the same shell, . {ENVIRONMENT}"
        raise DeviceError(f"{where}: Python package {error.name} must be installed, got none{hint}") from error
    return pynq


def _forget_clocks(pynq: Any, device: object) -> None:  # noqa: ANN401  of PYNQ
    """Keep PYNQ from setting the clocks of the process's first board, which it remembers, for every
    later one.
    """
    clocks: Any = getattr(pynq, "Clocks", None)
    if getattr(clocks, "device", device) is not device and hasattr(clocks, "_real_instance"):
        del clocks._real_instance


@cache
def _driver_class() -> type:
    """The class that PYNQ makes for the accelerator; defining it registers it."""
    import pynq

    class VdlaAccelerator(pynq.DefaultIP):  # type: ignore[misc]  # PYNQ has no types
        """The accelerator in an overlay: its registers as `mmio`."""

        bindto = [IP_VLNV]  # noqa: RUF012  PYNQ wants a list

    return VdlaAccelerator


def _accelerator(where: str, ip_dict: Mapping[str, Mapping[str, Any]], bitstream: Path) -> str:
    """The name of the first accelerator."""
    types = {name: str(entry.get("type")) for name, entry in ip_dict.items()}
    names = [name for name, kind in types.items() if kind == IP_VLNV]
    if not names:
        type_names = ", ".join(sorted(set(types.values()))) or "none"
        raise DeviceError(f"{where}: {bitstream.name} must have an IP of type {IP_VLNV}, got {type_names}")
    return min(names)


def _instance(overlay: Any, name: str) -> Any:  # noqa: ANN401  of PYNQ
    """The driver object of an IP, whose name has slashes within a hierarchy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NO_INTERRUPT)  # polled instead
        instance = overlay
        for part in name.split("/"):
            instance = getattr(instance, part)
    return instance


def _interrupt(instance: Any) -> InterruptWait | None:  # noqa: ANN401  of PYNQ
    pins = list(getattr(instance, "_interrupts", {}))
    return interrupt_wait(getattr(instance, pins[0], None)) if pins else None


def _allocate(pynq: Any, device: object, nbytes: int) -> Any:  # noqa: ANN401  of PYNQ
    """A buffer that the processor's caches may hold: it is flushed and invalidated."""
    return pynq.allocate(shape=(nbytes,), dtype=np.uint8, target=device, cacheable=1)


def _meminfo(device: Any, remote: bool) -> str:  # noqa: ANN401  of PYNQ
    """The board's /proc/meminfo."""
    return bytes(device.read_file(_MEMINFO)).decode() if remote else Path(_MEMINFO).read_text(encoding="utf-8")


def proxy_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables that make PYNQ's client, which is gRPC, connect through a proxy for the web."""
    return [name for name in ("grpc_proxy", "https_proxy", "http_proxy") if environment.get(name)]


def _hint(error: Exception) -> str:
    said = one_line(error)
    proxies = proxy_variables(os.environ)
    if proxies and "Failed to connect" in said:
        return f"; gRPC connects through the proxy in {' and '.join(proxies)}: name the board's address in no_proxy"
    if "No Devices Found" in said or "Failed to connect" in said:
        return "; run on a board, or set PYNQ_REMOTE_DEVICES to the address of one before PYNQ is imported"
    if "oot permission" in said:
        return "; run as root (sudo -i)"
    return ""
