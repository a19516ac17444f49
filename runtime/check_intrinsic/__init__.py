"""The check of an intrinsic's lowering: its instructions compute what its behaviour says."""

from vdla.runtime.check_intrinsic.check import IntrinsicCheck, IntrinsicMismatch, check_intrinsic

__all__ = ["IntrinsicCheck", "IntrinsicMismatch", "check_intrinsic"]
