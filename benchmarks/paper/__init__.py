# SPDX-License-Identifier: Apache-2.0
"""The figures of TVM's paper (Chen et al., OSDI 2018), measured again on what is at hand."""
