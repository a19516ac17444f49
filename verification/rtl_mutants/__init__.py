# SPDX-License-Identifier: Apache-2.0
"""Defects planted in the RTL, and what finds them."""
