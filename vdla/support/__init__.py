# SPDX-License-Identifier: Apache-2.0
"""Services of every room: errors, integers, windows, atomic writes, caches, suggestions."""
