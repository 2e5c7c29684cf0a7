"""What the sections [logs] and [metrics] may say of their servers."""

from __future__ import annotations

import pytest

from middlewatch.wiring.loading import BadSettings, load

LOKI = {"logs.source": "loki", "logs.url": "http://localhost:3100"}
VICTORIALOGS = {"logs.source": "victorialogs", "logs.url": "http://localhost:9428"}
METRICS = {"metrics.url": "http://localhost:9090"}
SECRET = "hunter2"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (LOKI, "http://localhost:3100"),
        (VICTORIALOGS, "http://localhost:9428"),
        ({**VICTORIALOGS, "logs.url": "http://[::1]", "logs.token_file": "/t"}, "http://[::1]"),
        ({"logs.source": "files"}, ""),
    ],
)
def test_what_is_needed_is_enough(given: dict[str, object], url: str) -> None:
    assert load({}, flags=given).settings.logs.url == url


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
        ({"metrics.url": "prometheus:9090"}, "http://"),
        ({"metrics.url": "http://prometheus:9090/?a=b"}, "is no http"),
        ({"metrics.url": "http://prometheus:9090", "metrics.token_file": "/t"}, "in the clear"),
        ({**METRICS, "metrics.username": "u"}, "go together"),
        ({**METRICS, "metrics.token_file": "/t", "metrics.username": "u"}, "two ways in"),
        ({**METRICS, "metrics.tenant": "a b"}, "cannot stand in a header"),
        ({**METRICS, "metrics.tenant": "\u00c4"}, "cannot stand in a header"),
        ({**METRICS, "metrics.tenant": "a", "metrics.tenant_header": "bad header"}, "no name"),
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
