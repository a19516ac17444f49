# SPDX-License-Identifier: Apache-2.0
"""Remote devices: a server for a device of this machine, and the device of its clients.

Needs `grpcio` besides NumPy; a server needs what its device needs.
"""
