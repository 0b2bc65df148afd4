"""Whole kernels that use a grid barrier, one a file, each as a :class:`~kernels.case.Case`."""

from . import jacobi, mlp, softmax, split_k
from .case import Case

CASES: tuple[Case, ...] = (softmax.CASE, jacobi.CASE, split_k.CASE, mlp.CASE)

__all__ = ["CASES", "Case"]
