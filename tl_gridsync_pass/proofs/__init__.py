"""Checks of the barrier itself: every interleaving, and its ordering under the PTX memory model.

Nothing on the compile path imports this package. It reads the protocols from
:mod:`tl_gridsync_pass.protocol`, the texts that the device code emits, and is what the tests,
``docs/correctness.md`` and the demo on a machine without a GPU are built on.

========================  =====================================================================
:mod:`.ptx`               parses the PTX subset that the protocols use; refuses everything else
:mod:`.values`            what an arithmetic instruction computes, on numbers and on z3 terms
:mod:`.harness`           the code around a protocol: block barriers, leader guard, rounds
:mod:`.specialize`        one thread's program with its own special registers folded in
:mod:`.explore`           all interleavings of a small grid, with sequentially consistent words
:mod:`.trace`             a counterexample as a readable story
:mod:`.stock`             the barriers that TileLang ships, written down from their behaviour
:mod:`.memory_model`      the axioms of the PTX memory model for z3
:mod:`.litmus`            litmus tests whose verdicts are known
:mod:`.emission`          the harness that a generated kernel has, read from its source
:mod:`.ordering`          the barrier's events under those axioms, and each of their weakenings
:mod:`.mutants`           planted faults, and which check catches each
:mod:`.report`            runs all of it and prints the tables
========================  =====================================================================
"""
