# SPDX-License-Identifier: Apache-2.0
"""Board support: descriptions of boards, one folder each, and the files of their designs."""
