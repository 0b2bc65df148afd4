"""Findings for machines: a JSON object, and SARIF 2.1.0 as code scanning services read it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .diagnostics import RULES, Diagnostic, Location, Severity

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "note"}


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """One finding as plain values: rule, severity, kernel, barrier, message, condition, file, line, notes, help."""
    return {
        "rule": diagnostic.rule.name,
        "severity": diagnostic.severity.value,
        "kernel": diagnostic.kernel,
        "barrier": diagnostic.barrier,
        "message": diagnostic.message,
        "condition": diagnostic.condition,
        **_place(diagnostic.location),
        "notes": [{"text": note.text, **_place(note.location)} for note in diagnostic.notes],
        "help": diagnostic.help,
    }


def to_sarif(diagnostics: Iterable[Diagnostic], version: str, root: Path) -> dict[str, Any]:
    """A SARIF log with one run.

    Parameters
    ----------
    diagnostics : Iterable[Diagnostic]
    version : str
        This package's version.
    root : Path
        Files below it are named relative to it, which is what code scanning services expect.
    """
    rules = [{"id": rule.name, "shortDescription": {"text": rule.summary}} for rule in RULES]
    driver = {"name": "tl_gridsync_pass", "version": version, "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(d, root) for d in diagnostics]}
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(diagnostic: Diagnostic, root: Path) -> dict[str, Any]:
    text = f"{diagnostic.message}." + (f" Help: {diagnostic.help}." if diagnostic.help else "")
    result: dict[str, Any] = {
        "ruleId": diagnostic.rule.name,
        "ruleIndex": RULES.index(diagnostic.rule),
        "level": _SARIF_LEVELS[diagnostic.severity],
        "message": {"text": text},
    }
    logical = {"logicalLocations": [{"name": diagnostic.kernel, "kind": "function"}]}
    result["locations"] = [{**_physical(diagnostic.location, root), **logical}]
    related = [{**_physical(note.location, root), "message": {"text": note.text}} for note in diagnostic.notes if note.location]
    if related:
        result["relatedLocations"] = related
    return result


def _physical(location: Location | None, root: Path) -> dict[str, Any]:
    if location is None:
        return {}
    path = Path(location.file).resolve()
    uri = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_uri()
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": location.line}}}


def _place(location: Location | None) -> dict[str, Any]:
    return {"file": location.file if location else None, "line": location.line if location else None}
