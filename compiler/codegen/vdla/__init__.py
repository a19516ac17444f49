"""From a scheduled, tensorized loop nest to an accelerator program."""
