"""Targets by name: a machine or a CPU. No name is both."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.compiler.target import Target
    from vdla.hardware.config import Config

_GRIDS = "opencl[:NAME] or cuda[:NAME]"


def target_of(target: object, error: type[Exception]) -> Config | Target:
    """The configuration or the CPU that `target` is, or names; `error` if it is neither."""
    from vdla.compiler.target import TARGETS, Target
    from vdla.hardware.config import PRESETS, Config
    from vdla.support.suggest import did_you_mean

    if isinstance(target, Config | Target):
        return target
    if not isinstance(target, str):
        raise error(f"compile: target must be a Config, a Target or a name, got {type(target).__name__}")
    if target in PRESETS:
        return PRESETS[target]
    cpus = ("host", *TARGETS)
    if target in cpus:
        return Target.named(target)
    choices = f"an accelerator ({', '.join(PRESETS)}), a CPU ({', '.join(cpus)}) or a GPU ({_GRIDS})"
    hint = did_you_mean(target, (*PRESETS, *cpus, "opencl", "cuda"))
    raise error(f"compile: target must be {choices}, got {target!r}{hint}")
