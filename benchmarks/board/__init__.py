# SPDX-License-Identifier: Apache-2.0
"""Parts of the benchmark `board`: functions that return figures, and what they need."""
