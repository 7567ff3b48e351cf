"""Exported events are held against the published schema (OpenLineage 2-0-2), of which the part used here follows."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from corpusmaker import commit

from dagster_project.cli import main
from pipelines.store import Store

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
URI = {"type": "string", "format": "uri"}
TEXT = {"type": "string"}
FACET: dict[str, Any] = {
    "type": "object",
    "properties": {"_producer": URI, "_schemaURL": URI},
    "required": ["_producer", "_schemaURL"],
}


def facet(required: list[str], **fields: Any) -> dict[str, Any]:
    return {"allOf": [FACET, {"type": "object", "properties": fields, "required": required}]}


def facets(**known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, "additionalProperties": FACET}


VERSION = facet(["datasetVersion"], datasetVersion=TEXT)
TAG = {"type": "object", "properties": {"key": TEXT, "value": TEXT, "source": TEXT}, "required": ["key", "value"]}
ASSERTION = {
    "type": "object",
    "required": ["assertion", "success"],
    "properties": {
        "assertion": TEXT,
        "success": {"type": "boolean"},
        "severity": TEXT,
        "expected": TEXT,
        "actual": TEXT,
    },
}
COUNT = {"type": "integer"}


def dataset(**more: Any) -> dict[str, Any]:
    named = facets(version=VERSION, tags=facet([], tags={"type": "array", "items": TAG}))
    return {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {"namespace": TEXT, "name": TEXT, "facets": named, **more},
    }


RUN_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": URI,
        "schemaURL": URI,
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {
                "runId": {"type": "string", "format": "uuid"},
                "facets": facets(processing_engine=facet(["version"], version=TEXT, name=TEXT)),
            },
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {
                "namespace": TEXT,
                "name": TEXT,
                "facets": facets(jobType=facet(["processingType", "integration"], processingType=TEXT)),
            },
        },
        "inputs": {
            "type": "array",
            "items": dataset(
                inputFacets=facets(
                    dataQualityAssertions=facet(["assertions"], assertions={"type": "array", "items": ASSERTION})
                )
            ),
        },
        "outputs": {
            "type": "array",
            "items": dataset(
                outputFacets=facets(outputStatistics=facet([], rowCount=COUNT, size=COUNT, fileCount=COUNT))
            ),
        },
    },
}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def check(value: Any, schema: dict[str, Any], where: str = "event") -> None:
    """The few words of JSON Schema that the spec uses for these events."""
    for part in schema.get("allOf", []):
        check(value, part, where)
    if "type" in schema:
        assert isinstance(value, TYPES[schema["type"]]), f"{where}: {value!r} is no {schema['type']}"
    assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r}"
    if schema.get("format") == "uuid":
        uuid.UUID(value)
    elif schema.get("format") == "date-time":
        assert datetime.fromisoformat(value).tzinfo is not None, f"{where}: {value!r} has no zone"
    elif schema.get("format") == "uri":
        assert re.match(r"[a-z][a-z0-9+.-]*:\S+$", value), f"{where}: {value!r} is no URI"
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value), (
            f"{where}: {schema['required']} not all in {sorted(value)}"
        )
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if inner is not None:
                check(item, inner, f"{where}.{key}")
    for number, item in enumerate(value if isinstance(value, list) else []):
        if "items" in schema:
            check(item, schema["items"], f"{where}[{number}]")


@pytest.fixture
def home(store: Store) -> Path:
    """Three versions of two assets, one of which failed its checks."""
    raw = commit(store, "raw/aitw", {}, files={"files.json": b"[]"}, counts={"revision": "abc"})
    commit(store, "unified/aitw", {raw.asset: raw.version}, files={"a.txt": b"1"})
    commit(store, "unified/aitw", {raw.asset: raw.version}, files={"a.txt": b"2"}, passed=False)
    return store.home


def export(home: Path, folder: Path, *name: str) -> list[dict[str, Any]]:
    assert main(["lineage", *name, "--home", str(home), "--openlineage", str(folder / "events.ndjson")]) == 0
    return [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]


def test_each_manifest_is_one_event_of_the_published_shape(home: Path, tmp_path: Path) -> None:
    events = export(home, tmp_path)
    for event in events:
        check(event, RUN_EVENT)
        assert event["schemaURL"] == f"{SPEC}#/$defs/RunEvent"
    assert [(e["job"]["name"], e["eventType"]) for e in events][0] == ("raw/aitw", "COMPLETE")
    assert sorted(e["eventType"] for e in events) == ["COMPLETE", "COMPLETE", "FAIL"]
    assert len({e["run"]["runId"] for e in events}) == 3
    made = next(e for e in events if e["inputs"])
    [read] = made["inputs"]
    [raw] = events[0]["outputs"]
    assert read["name"] == "raw/aitw" and read["facets"]["version"] == raw["facets"]["version"]
    assert {tag["key"]: tag["value"] for tag in raw["facets"]["tags"]["tags"]} == {
        "licence": "CC-BY-4.0",
        "revision": "abc",
    }
    assert made["outputs"][0]["outputFacets"]["outputStatistics"]["fileCount"] == 1
    assert made["run"]["facets"]["vesper_manifest"]["codeVersion"] == "1"


def test_an_export_is_the_same_again_and_can_be_of_one_ancestry(home: Path, tmp_path: Path) -> None:
    assert export(home, tmp_path) == export(home, tmp_path)
    assert [e["job"]["name"] for e in export(home, tmp_path, "unified/aitw")] == ["raw/aitw", "unified/aitw"]


def test_the_check_of_the_shape_can_fail(home: Path, tmp_path: Path) -> None:
    [event, *_] = export(home, tmp_path)
    spoilt: list[dict[str, Any]] = [
        {"eventTime": "now"},
        {"eventType": "DONE"},
        {"run": {}},
        {"job": {"name": "x"}},
        {"producer": "x"},
    ]
    for spoil in spoilt:
        with pytest.raises((AssertionError, ValueError)):
            check({**event, **spoil}, RUN_EVENT)
