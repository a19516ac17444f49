# SPDX-License-Identifier: Apache-2.0
"""Text from decoders: prompts in chunks, then a token at a time, with a cache."""
