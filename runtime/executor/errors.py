# SPDX-License-Identifier: Apache-2.0
"""The errors of compiled networks: of their files, and of running them."""

from __future__ import annotations

from vdla.support.errors import Error


class ArtifactError(Error, ValueError):
    """A file that is not a valid artifact, or one for another machine; the message says where."""


class ModelWarning(UserWarning):
    """A model that runs slowly on this machine; the message says what to do."""


class ExecutorError(Error, ValueError):
    """Inputs that do not fit a model, or a model that this machine cannot run."""


class ModelError(Error, ValueError):
    """A model that cannot be compiled, or an option that does not fit it."""
