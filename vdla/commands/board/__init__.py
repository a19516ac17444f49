# SPDX-License-Identifier: Apache-2.0
"""The subcommands of `vdla board`, one a file."""
