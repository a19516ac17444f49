# SPDX-License-Identifier: Apache-2.0
"""Models as exporters write them, with reference outputs: the archives of `tests/zoo`."""
