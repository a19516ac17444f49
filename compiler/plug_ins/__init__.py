# SPDX-License-Identifier: Apache-2.0
"""The plug-ins that come with the toolkit, a file each: `--extension softmax` names one.

A file is what a user would write: it declares instructions, their datapath, and the programs of
layers that use them.
"""
