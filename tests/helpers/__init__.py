# SPDX-License-Identifier: Apache-2.0
"""Naive models, program builders and test benches that tests share."""
