# SPDX-License-Identifier: Apache-2.0
"""Programs, tests and defects that are drawn or generated, and what judges the toolkit by them."""
