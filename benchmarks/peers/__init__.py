# SPDX-License-Identifier: Apache-2.0
"""Networks on machines of this project, beside the published figures of others."""
