# SPDX-License-Identifier: Apache-2.0
"""Proofs of the lemmas of certificates, and faults that are planted in lemmas."""
