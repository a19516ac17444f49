// Where the model's own messages go: into the error of the run that they end, not to standard output.
// Included before everything else in every file of the library, so that Verilator's runtime prints through it.

#ifndef VDLA_MESSAGES_H_
#define VDLA_MESSAGES_H_

int vdla_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define VL_PRINTF vdla_print
#define VL_USER_FINISH
#define VL_USER_STOP
#define VL_USER_FATAL

#endif
