"""What the section [logs] may say."""

from __future__ import annotations

import pytest

from middlewatch.wiring.loading import BadSettings, load

LOKI = {"logs.source": "loki", "logs.url": "http://localhost:3100"}
VICTORIALOGS = {"logs.source": "victorialogs", "logs.url": "http://localhost:9428"}
SECRET = "hunter2"


@pytest.mark.parametrize("given", [LOKI, VICTORIALOGS, {"logs.source": "files"}])
def test_what_is_needed_is_enough(given: dict[str, object]) -> None:
    load({}, flags=given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**LOKI, "logs.url": ""}, "is no http"),
        ({**LOKI, "logs.url": "logs.example.org"}, "is no http"),
        ({**LOKI, "logs.job_label": "job id"}, "no name of a label"),
        ({**LOKI, "logs.match": "cluster=a"}, "no list of matchers"),
        ({**LOKI, "logs.job_label_in_stream": "false"}, "without a stream label"),
        ({**VICTORIALOGS, "logs.tenant": "one"}, "two numbers"),
        ({**VICTORIALOGS, "logs.token_file": "/t", "logs.username": "u"}, "two ways in"),
        ({**VICTORIALOGS, "logs.username": "u"}, "go together"),
        (
            {**VICTORIALOGS, "logs.url": "http://logs.example.org:9428", "logs.token_file": "/t"},
            "in the clear",
        ),
        ({"logs.source": "syslog"}, "source"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        load({}, flags=given)


@pytest.mark.parametrize("key", ["logs.url", "metrics.url"])
def test_secret_in_an_address_is_not_repeated(key: str) -> None:
    url = f"//user:{SECRET}@logs.example.org"
    source = {"logs.source": "loki"} if key == "logs.url" else {}
    with pytest.raises(BadSettings) as refused:
        load({}, flags={**source, key: url})
    assert SECRET not in str(refused.value)
