"""Says at compile time that a grid barrier will hang: see docs/verification.md."""

from .diagnostics import Diagnostic, Location, Note, Rule, Severity
from .verify_pass import PASS_NAME, VerifyGridSync, find, verify

__all__ = ["PASS_NAME", "Diagnostic", "Location", "Note", "Rule", "Severity", "VerifyGridSync", "find", "verify"]
