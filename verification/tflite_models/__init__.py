# SPDX-License-Identifier: Apache-2.0
"""Small models of TensorFlow Lite with seeded weights, and what their operators compute."""
