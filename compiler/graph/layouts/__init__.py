# SPDX-License-Identifier: Apache-2.0
"""Images in blocks of channels on CPUs: the layout rule of each operator."""
