"""The subcommands of `vdla board`, one a file."""
