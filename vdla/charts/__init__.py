# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text, in one palette for light and dark backgrounds, and pages of HTML with them.

A chart takes plain figures and does not depend on commands. Every mark shows its figures as a
tooltip, and names its row of the table beside the chart.
"""
