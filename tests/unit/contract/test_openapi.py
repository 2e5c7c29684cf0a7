from __future__ import annotations

import json
from pathlib import Path

from middlewatch.contract import openapi
from middlewatch.contract.http import routes

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = openapi.document()


def test_committed_description_is_what_the_code_serves() -> None:
    kept = (ROOT / "docs" / "openapi.json").read_text()
    assert kept == openapi.text(), "run `python -m middlewatch.contract.openapi` and commit it"


def test_every_route_is_described_with_its_parameters() -> None:
    for route in routes():
        operation = DOCUMENT["paths"][route.path][route.verb.lower()]
        named = {parameter["name"] for parameter in operation.get("parameters", [])}
        in_path = {
            route.method.input_type.fields_by_name[segment.field].json_name
            for segment in route.segments
            if segment.field
        }
        assert in_path <= named
        assert ("requestBody" in operation) is bool(route.body)


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    text = json.dumps(DOCUMENT)
    used = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used <= set(schemas)


def test_documented_schema_names_and_types_are_kept() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert {
        "v1Job",
        "v1Workflow",
        "v1Advice",
        "v1NodeConstraints",
        "v1JobAdditionalProperties",
        "v1CreateOrUpdateJobRequest",
        "v1AdviceReconciliationStatus",
        "v1RecordRecoveryMilestoneRequest",
        "v1CreateAuditEventsRequest",
        "v1ProducerAuditEvent",
        "v1AuditEventPartialSuccess",
        "v1ApiKey",
        "ApiKeysServiceUpdateApiKeyAuthorizationsBody",
    } <= set(schemas)
    report = schemas["v1AdviceReconciliationStatus"]["properties"]
    assert report["observedGeneration"] == {"type": "string", "format": "int64"}
    assert schemas["v1Advice"]["properties"]["desiredStateChangedAt"] == {
        "type": "string",
        "format": "date-time",
    }
    assert schemas["v1CreateOrUpdateJobRequest"]["required"] == ["workflowId"]


def test_limits_of_pages_are_described() -> None:
    def limit(path: str) -> dict[str, int]:
        parameters = DOCUMENT["paths"][path]["get"]["parameters"]
        schema = next(p["schema"] for p in parameters if p["name"] == "limit")
        return {name: schema[name] for name in ("minimum", "maximum")}

    assert limit("/v1/jobs") == {"minimum": 1, "maximum": 250}
    assert limit("/v1/advice") == {"minimum": 1, "maximum": 250}
    assert limit("/v1/audit/events") == {"minimum": 1, "maximum": 100}
