"""Charts as SVG text, in one palette for light and dark backgrounds, and pages of HTML with them.

A chart takes plain figures and knows no command. Every mark says its figures where one points at
it, and names its row of the table beside the chart.
"""
