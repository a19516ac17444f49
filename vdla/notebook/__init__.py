# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows of programs, runs, networks, schedules and verdicts.

A class names its function here by `vdla.support.html_repr`. The outputs are single pieces of HTML:
escaped, bounded in size, without scripts, and equal for equal objects.
"""
