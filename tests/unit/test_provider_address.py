"""S67: a key goes to the provider's public addresses, or to this machine in a test, and nowhere a resolver would rather have it."""

import socket
from ipaddress import ip_address
from typing import Any

import pytest
import requests

from jobs import stripe_addresses
from jobs.stripe_gateway import LookFailed
from jobs.stripe_session import ProviderSession
from ledger.settlement import NotAccepted
from tests.jobs.calls import ACCOUNT, gateway_at, key, request_for

NAME = "api.provider.example"
PUBLIC = "93.184.215.14"
PAYMENT = {"payment_intent": "pi_1", "charge": "ch_1", "currency": "gbp"}


class Resolver:
    """Answers the name with one list of addresses after another; the last stays. Literal addresses are themselves."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        found = [host]
        if host == NAME:
            self.asked += 1
            found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where connections were tried; none is made."""
    tried: list[str] = []

    def create(address: tuple[str, int], *_: Any, **__: Any) -> socket.socket:
        tried.append(address[0])
        raise OSError("no route in a test")

    monkeypatch.setattr("urllib3.util.connection.create_connection", create)
    return tried


def resolves_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> Resolver:
    resolver = Resolver(*answers)
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return resolver


INSIDE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.9", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104
    "::1", "fe80::1", "fd00::1", "::ffff:10.1.2.3", "::ffff:93.184.215.14", "2002:0a01:0203::1", "64:ff9b::a01:203", "ff0e::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_a_name_that_leads_inside_is_connected_to_nowhere(
    monkeypatch: pytest.MonkeyPatch, connected: list[str], address: str
) -> None:
    for answer in ([address], [PUBLIC, address]):
        resolves_to(monkeypatch, answer)
        with pytest.raises(requests.ConnectionError):
            ProviderSession(1).get(f"https://{NAME}/v1/refunds")
    assert connected == []


def test_a_public_address_is_connected_to_and_the_next_is_tried_where_the_first_takes_none(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    resolves_to(monkeypatch, ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", PUBLIC])
    with pytest.raises(requests.ConnectionError):
        ProviderSession(1).get(f"https://{NAME}/v1/refunds")
    assert connected == ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", PUBLIC]


def test_a_resolver_that_changes_its_mind_is_asked_once_and_its_first_answer_is_what_is_connected_to(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    resolver = resolves_to(monkeypatch, [PUBLIC], ["169.254.169.254"])
    with pytest.raises(requests.ConnectionError):
        ProviderSession(1).get(f"https://{NAME}/v1/refunds")
    assert (resolver.asked, connected) == (1, [PUBLIC])
    with pytest.raises(requests.ConnectionError):
        ProviderSession(1).get(f"https://{NAME}/v1/refunds")
    assert (resolver.asked, connected) == (2, [PUBLIC])


def test_control_without_the_judgement_the_address_inside_would_be_connected_to(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    monkeypatch.setattr(stripe_addresses, "is_public", lambda _address: True)
    resolves_to(monkeypatch, ["169.254.169.254"])
    with pytest.raises(requests.ConnectionError):
        ProviderSession(1).get(f"https://{NAME}/v1/refunds")
    assert connected == ["169.254.169.254"]


def test_without_tls_only_this_machine_is_connected_to(monkeypatch: pytest.MonkeyPatch, connected: list[str]) -> None:
    for address in (PUBLIC, "10.1.2.3", "127.0.0.1"):
        resolves_to(monkeypatch, [address])
        with pytest.raises(requests.ConnectionError):
            ProviderSession(1).get(f"http://{NAME}/v1/refunds")
    assert connected == ["127.0.0.1"]


def test_what_was_not_connected_is_not_sent_and_may_go_again_under_the_same_key(
    monkeypatch: pytest.MonkeyPatch, connected: list[str]
) -> None:
    resolves_to(monkeypatch, ["10.1.2.3"])
    gateway = gateway_at(f"https://{NAME}")
    outcome = gateway.refund(request_for(PAYMENT), key())
    assert isinstance(outcome, NotAccepted)
    assert not outcome.stops_merchant
    with pytest.raises(LookFailed, match="connection_refused"):
        gateway.list_refunds(ACCOUNT, "pi_1")
    assert connected == []


def test_the_certificate_is_asked_for_by_name_although_the_connection_goes_to_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []

    def greet(**given: Any) -> None:
        names.append(given["server_hostname"])
        raise OSError("no handshake in a test")

    ours, theirs = socket.socketpair()
    monkeypatch.setattr("urllib3.util.connection.create_connection", lambda *_, **__: ours)
    monkeypatch.setattr("urllib3.connection.ssl_wrap_socket", greet)
    resolves_to(monkeypatch, [PUBLIC])
    with ours, theirs, pytest.raises(requests.ConnectionError):
        ProviderSession(1).get(f"https://{NAME}/v1/refunds")
    assert names == [NAME]


def test_every_address_of_the_list_is_judged_as_it_stands() -> None:
    assert [address for address in INSIDE if stripe_addresses.is_public(ip_address(address))] == []
    assert stripe_addresses.is_public(ip_address(PUBLIC))
