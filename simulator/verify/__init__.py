# SPDX-License-Identifier: Apache-2.0
"""The verifier: deadlocks, races, bounds and encoding of a program. Needs NumPy only."""

from vdla.simulator.verify.verdict import Finding, Kind, Range, Verdict, VerifyError
from vdla.simulator.verify.verify import accept_verified, require_verified, verify

__all__ = ["Finding", "Kind", "Range", "Verdict", "VerifyError", "accept_verified", "require_verified", "verify"]
