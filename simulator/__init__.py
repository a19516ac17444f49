# SPDX-License-Identifier: Apache-2.0
"""What the machine does and when: function, timing, verification."""
