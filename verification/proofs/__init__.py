# SPDX-License-Identifier: Apache-2.0
"""Proofs of modules of the RTL by temporal induction."""
