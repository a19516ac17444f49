# SPDX-License-Identifier: Apache-2.0
"""Runs as a page of HTML that can be stepped through, forwards and backwards."""
