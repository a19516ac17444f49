# SPDX-License-Identifier: Apache-2.0
"""Code generators, one room a target."""
