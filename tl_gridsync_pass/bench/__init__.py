"""Measuring a grid barrier: shared by ``python -m tl_gridsync_pass bench`` and the scripts in benchmarks/."""
