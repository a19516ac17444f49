# SPDX-License-Identifier: Apache-2.0
"""What text cannot be generated for."""

from __future__ import annotations

from vdla.support.errors import Error


class GenerateError(Error, ValueError):
    """A network that is no decoder, a tokenizer of another one, or a prompt beyond the cache."""
