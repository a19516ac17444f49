// SPDX-License-Identifier: Apache-2.0
// Redirects the model's messages from standard output to the error of the run that they end.
// Force-included first in every file of the library, Verilator's runtime included.

#ifndef VDLA_MESSAGES_H_
#define VDLA_MESSAGES_H_

int vdla_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define VL_PRINTF vdla_print
#define VL_USER_FINISH
#define VL_USER_STOP
#define VL_USER_FATAL

#endif
