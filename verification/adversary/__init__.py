# SPDX-License-Identifier: Apache-2.0
"""The adversary: runs a program under hostile schedules, to check the verifier."""

from vdla.verification.adversary.adversary import MOST_ITEMS, Attack, Harm, Interleaving, attack, interleavings

__all__ = ["MOST_ITEMS", "Attack", "Harm", "Interleaving", "attack", "interleavings"]
