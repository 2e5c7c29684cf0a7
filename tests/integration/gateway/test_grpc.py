from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from middlewatch.adapters.sql.store import SqlStore
from middlewatch.contract.gen.heimdall.v1 import (
    api_keys_pb2,
    api_keys_pb2_grpc,
    heimdall_pb2,
    heimdall_pb2_grpc,
)
from middlewatch.model.change import Change
from middlewatch.services.gateway.access import Listen
from tests.contract.api.samples import ADVICE, ATTEMPT
from tests.integration.gateway.conftest import TLS, Start

Metadata = list[tuple[str, str]]


@pytest.fixture
def served(start: Start) -> Iterator[tuple[grpc.Channel, Metadata]]:
    gateway = start(Listen(port=0, grpc_port=0))
    assert gateway.grpc_address is not None
    with grpc.insecure_channel(gateway.grpc_address) as channel:
        yield channel, [("authorization", f"Bearer {gateway.first_token}")]


def test_calls_answer_as_over_http(served: tuple[grpc.Channel, Metadata], store: SqlStore) -> None:
    channel, token = served
    store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    stub = heimdall_pb2_grpc.HeimdallServiceStub(channel)
    answer = stub.ListAdvice(heimdall_pb2.ListAdviceRequest(only_active=True), metadata=token)
    assert [advice.job_id for advice in answer.advice] == ["12345"]
    assert answer.advice[0].advice.state == heimdall_pb2.ADVICE_STATE_RESTARTED


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (heimdall_pb2.GetJobRequest(heimdall_job_id="7-0"), grpc.StatusCode.NOT_FOUND),
        (heimdall_pb2.GetJobRequest(heimdall_job_id="7"), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_errors_carry_their_code_and_message(
    served: tuple[grpc.Channel, Metadata],
    request_: heimdall_pb2.GetJobRequest,
    code: grpc.StatusCode,
) -> None:
    channel, token = served
    with pytest.raises(grpc.RpcError) as caught:
        heimdall_pb2_grpc.HeimdallServiceStub(channel).GetJob(request_, metadata=token)
    assert caught.value.code() is code
    assert "7" in (caught.value.details() or "")


def test_call_without_a_token_is_unauthenticated(
    served: tuple[grpc.Channel, Metadata],
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        heimdall_pb2_grpc.HeimdallServiceStub(served[0]).GetJobs(heimdall_pb2.GetJobsRequest())
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_key_calls_are_disabled_here_too(served: tuple[grpc.Channel, Metadata]) -> None:
    channel, token = served
    stub = api_keys_pb2_grpc.ApiKeysServiceStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.ListApiKeys(api_keys_pb2.ListApiKeysRequest(), metadata=token)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "API key management is disabled"


def test_tls_serves_those_who_trust_its_certificate(start: Start) -> None:
    gateway = start(
        Listen(
            port=0,
            grpc_port=0,
            tls_certificate=str(TLS / "certificate.pem"),
            tls_key=str(TLS / "key.pem"),
        )
    )
    assert gateway.grpc_address is not None
    trusted = grpc.ssl_channel_credentials((TLS / "certificate.pem").read_bytes())
    with grpc.secure_channel(gateway.grpc_address, trusted) as channel:
        stub = heimdall_pb2_grpc.HeimdallServiceStub(channel)
        token = [("authorization", f"Bearer {gateway.first_token}")]
        assert stub.GetJobs(heimdall_pb2.GetJobsRequest(), metadata=token).count == 0
