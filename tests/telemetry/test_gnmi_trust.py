"""Trust between collector and target: TLS, certificates, user and password, with the switch agent."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Any

import pytest
from authority import Authority
from gnmilib import agent, collect, config, heard, lines_so_far, query
from ports import free_port

from mburst.telemetry.gnmi.config import GnmiTarget
from mburst.telemetry.gnmi.credentials import diagnose


def of_agent(text: str) -> str:
    """Returns a configuration for the agent, whose lo has counters but no queue."""
    return text.replace("/qos/interfaces", "/interfaces")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), "other")


def test_each_refused_login_is_one_line_and_other_targets_continue(tmp_path, authority, other):
    """The logins differ in TLS, client certificate, user and password."""
    certificate, key = authority.issue("server", ["127.0.0.1", "localhost"])
    mine, my_key = authority.issue("client", [])
    door = [f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={authority.ca}", "--username=me"]
    with agent("lo", *door, env={"MBURST_AGENT_PASSWORD": "secret-1"}) as (address, _):
        good = f'address: "{address}", tls-ca: {authority.ca}, tls-cert: {mine}, tls-key: {my_key}, username: me'
        targets = {
            "good": f"{{{good}, password: secret-1}}",
            "password": f"{{{good}, password: wrong-2}}",
            "ca": f'{{address: "{address}", tls-ca: {other.ca}, tls-cert: {mine}, tls-key: {my_key}}}',
            "name": f"{{{good}, password: secret-1, tls-server-name: elsewhere.example}}",
            "nocert": f'{{address: "{address}", tls-ca: {authority.ca}, username: me, password: secret-1}}',
            "plain": f'{{address: "{address}", insecure: true, username: me, password: secret-1}}',
        }

        def until(collector: Any) -> bool:
            return heard(collector, "good") > 30 and {line.split(":")[0] for line in lines_so_far(collector)} >= set(
                targets
            ) - {"good"}

        printed = collect(tmp_path, of_agent(config(**targets)), until)
    lines = {name: [line for line in printed if line.startswith(f"{name}: ")] for name in targets}
    assert not lines["good"] and all(len(lines[name]) == 1 for name in lines if name != "good"), printed
    assert "user or password is refused" in lines["password"][0]
    # the agent also sends the certificate of its authority
    assert "certificate was rejected: self-signed certificate in certificate chain" in lines["ca"][0]
    assert "certificate was rejected: Hostname mismatch" in lines["name"][0] and "elsewhere.example" in lines["name"][0]
    assert "does it require a client certificate" in lines["nocert"][0]
    assert "the server uses TLS, but the configuration says insecure" in lines["plain"][0]
    stored = query(tmp_path, "SELECT * FROM gnmi_events")
    assert "secret-1" not in str(printed) + str(stored) and "wrong-2" not in str(printed) + str(stored)


@pytest.mark.parametrize("tls", ["skip-verify: true", "timeout: 60s"])
def test_a_target_without_tls_is_reported(tmp_path, tls):
    with agent("lo") as (address, _):
        text = of_agent(config(a=f'{{address: "{address}", {tls}}}'))
        printed = collect(tmp_path, text, lambda collector: bool(lines_so_far(collector)))
    assert "TLS: the target does not answer with TLS; is it a plaintext target (insecure: true)?" in printed[0]


def test_a_failure_is_explained_as_grpc_verifies(tmp_path, monkeypatch):
    """gRPC accepts certificates that are not strictly those of RFC 5280, and trusts those that are no CA. By default,
    Python does not do the former since 3.13, and the latter before."""
    authority = Authority(tmp_path, strict=False)
    certificate, key = authority.issue("server", ["127.0.0.1"])

    def as_python_3_13(*given: Any, make: Any = ssl.create_default_context, **named: Any) -> ssl.SSLContext:
        context = make(*given, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_python_3_13)
    with agent("lo", f"--tls-cert={certificate}", f"--tls-key={key}") as (address, _):
        target = GnmiTarget("sw", address, (), tls_ca=str(authority.ca))
        assert diagnose(target) == ""
        for trusted in (authority.ca, certificate):
            elsewhere = replace(target, tls_ca=str(trusted), tls_server_name="elsewhere.example")
            assert "Hostname mismatch" in diagnose(elsewhere)


def test_trust_on_first_use_pins_the_certificate(tmp_path, monkeypatch, authority, other):
    """skip-verify accepts the first certificate, and from then on no other."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    port = free_port()
    text = of_agent(config(a=f'{{address: "127.0.0.1:{port}", skip-verify: true}}'))
    first, last = authority.issue("box", ["switch.example"]), other.issue("box", ["switch.example"])
    lines: list[list[str]] = []
    for run, (certificate, key) in enumerate((first, first, last)):
        (tmp_path / str(run)).mkdir()
        with agent("lo", f"--listen=127.0.0.1:{port}", f"--tls-cert={certificate}", f"--tls-key={key}"):
            lines.append(
                collect(
                    tmp_path / str(run),
                    text,
                    lambda collector: heard(collector, "a") > 5 or "differs from" in str(lines_so_far(collector)),
                )
            )
    assert len(lines[0]) == 1 and "trusted on first use: SHA-256" in lines[0][0]
    assert lines[1] == []
    assert len(lines[2]) >= 1 and "differs from the one that was trusted on first use" in lines[2][0]
