"""A test module of a user; named so that this project's own run does not collect it."""

import program


def test_prints_its_barrier():
    program.compile_one()
