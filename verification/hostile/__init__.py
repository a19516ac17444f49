# SPDX-License-Identifier: Apache-2.0
"""Mutated files: every one is read, or refused with an error of the toolkit."""
