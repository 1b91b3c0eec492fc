"""The admin API: JSON over HTTP below /admin/v1, for the command line, the console and other programs."""
