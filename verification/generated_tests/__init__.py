# SPDX-License-Identifier: Apache-2.0
"""Tests that follow from the declaration of an extension: programs, expectations, disagreements."""
