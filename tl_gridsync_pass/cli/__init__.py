"""The command line: ``tl-gridsync``, or ``python -m tl_gridsync_pass``. One file for each subcommand."""
