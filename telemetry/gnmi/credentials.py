"""How a target is reached and trusted: channels without TLS, with a CA, with a client's certificate, or with a pinned
certificate.

grpcio cannot skip the verification of a certificate. `skip-verify: true` therefore means trust on first use, as in ssh:
the first certificate that a target presents is kept in a file, and from then on only that one is accepted.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Any

from ... import files
from ...errors import MburstError
from .calls import in_thread
from .config import GnmiTarget

AHEAD_BYTES = 1 << 20  # of a stream that may be sent before it is read, so that targets need not wait for rows


def pins_folder() -> Path:
    """The folder of pinned certificates: mburst/pins in $XDG_STATE_HOME (default ~/.local/state)."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "mburst" / "pins"


def pin_path(target: GnmiTarget) -> Path:
    """The file of a target's pinned certificate."""
    return pins_folder() / (re.sub(r"[^\w.-]", "_", target.address) + ".pem")


def fingerprint(pem: str) -> str:
    """SHA-256 of a certificate, as browsers show it."""
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def host_port(address: str) -> tuple[str, int]:
    """The parts of "host:port" and "[address]:port"."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _read(path: str, what: str, target: GnmiTarget) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise MburstError(f"{target.name}: {what} {path}: cannot read: {error.strerror}") from None


async def channel_to(target: GnmiTarget) -> tuple[Any, str]:
    """Returns a gRPC channel to the target, and a remark ('' or a sentence). Raises MburstError."""
    import grpc
    from grpc.experimental import ChannelOptions

    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", target.message_bytes),
        ("grpc.http2.lookahead_bytes", AHEAD_BYTES),
        (
            "grpc.use_local_subchannel_pool",
            1,
        ),  # each channel has new connections, also after one that could not connect
        ("grpc.enable_http_proxy", 0),
        (ChannelOptions.SingleThreadedUnaryStream, 1),  # explained in calls.py
    ]
    if target.keepalive_s:
        options.append(("grpc.keepalive_time_ms", int(target.keepalive_s * 1000)))
    compression = grpc.Compression.Gzip if target.gzip else None
    if target.insecure:
        return grpc.insecure_channel(target.address, options=options, compression=compression), ""
    key = _read(target.tls_key, "tls-key", target) if target.tls_key else None
    certificate = _read(target.tls_cert, "tls-cert", target) if target.tls_cert else None
    note, root = "", None
    if target.skip_verify:
        pinned, name, note = await in_thread(lambda: _pinned(target))
        root = pinned
        options.append(("grpc.ssl_target_name_override", name))
    else:
        root = _read(target.tls_ca, "tls-ca", target) if target.tls_ca else None
        if target.tls_server_name:
            options.append(("grpc.ssl_target_name_override", target.tls_server_name))
    credentials = grpc.ssl_channel_credentials(root, key, certificate)
    return grpc.secure_channel(target.address, credentials, options=options, compression=compression), note


def _pinned(target: GnmiTarget) -> tuple[bytes, str, str]:
    """Returns (the pinned certificate, a name in it, a remark)."""
    path = pin_path(target)
    note = ""
    try:
        pem = path.read_text()
    except OSError:
        pem = fetch(target)
        files.write(path, pem, f"the certificate of {target.name}", "name another folder with XDG_STATE_HOME")
        note = f"trusted on first use: SHA-256 {fingerprint(pem)}, kept in {path}"
    return pem.encode(), _name_of_pinned(target, pem), note


def _context(target: GnmiTarget) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.tls_ca or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as gRPC verifies, on any Python
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["h2"])
    if target.tls_cert:
        context.load_cert_chain(target.tls_cert, target.tls_key)
    return context


def fetch(target: GnmiTarget) -> str:
    """Returns the certificate that a target presents, unverified. Raises MburstError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        name = target.tls_server_name or host_port(target.address)[0]
        with (
            socket.create_connection(host_port(target.address), target.timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=name) as tls,
        ):
            der = tls.getpeercert(binary_form=True)
    except (OSError, ValueError) as error:
        raise MburstError(f"{target.name}: {target.address}: {reason(error)}") from None
    if der is None:
        raise MburstError(f"{target.name}: {target.address}: presents no certificate")
    return ssl.DER_cert_to_PEM_cert(der)


def _name_of_pinned(target: GnmiTarget, pem: str) -> str:
    """Returns a name in the certificate that the target presents, which must be the pinned one: gRPC checks a name.
    Raises MburstError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=pem)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    if target.tls_cert:
        context.load_cert_chain(target.tls_cert, target.tls_key)
    address = host_port(target.address)
    try:
        with (
            socket.create_connection(address, target.timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=target.tls_server_name or address[0]) as tls,
        ):
            shown: Any = tls.getpeercert() or {}
    except ssl.SSLCertVerificationError:
        raise MburstError(f"{target.name}: {target.address}: {_changed(target, pem)}") from None
    except (OSError, ValueError) as error:
        raise MburstError(f"{target.name}: {target.address}: {reason(error)}") from None
    for kind, value in shown.get("subjectAltName", ()):
        if kind in ("DNS", "IP Address"):
            return str(value).replace("*", "any")
    return next((value for part in shown.get("subject", ()) for key, value in part if key == "commonName"), "")


def _changed(target: GnmiTarget, kept: str) -> str:
    return (
        f"the certificate differs from the one that was trusted on first use: SHA-256 "
        f"{fingerprint(fetch(target))}, expected {fingerprint(kept)}; "
        f"if the change is expected, remove {pin_path(target)}"
    )


def reason(error: BaseException) -> str:
    """An error of a connection or a handshake, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the server certificate was rejected: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "TLS: the target does not answer with TLS; is it a plaintext target (insecure: true)?"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return f"no such host: {error.strerror}"
    if isinstance(error, TimeoutError):
        return "no answer: timed out"
    return getattr(error, "strerror", None) or str(error)


def diagnose(target: GnmiTarget) -> str:
    """Returns why no connection can be made, by trying again with another library that reports the reason; '' if that
    works.

    For most failures, gRPC reports only that it could not connect.
    """
    if target.address.startswith("unix:"):
        return "" if os.path.exists(target.address.removeprefix("unix:")) else "no such socket"
    try:
        with socket.create_connection(host_port(target.address), target.timeout_s) as plain:
            if target.insecure:
                return _speaks_tls(plain)
            if target.skip_verify:
                return ""  # a fault of a pinned certificate was reported before
            return _handshake(target, plain)
    except (OSError, ValueError) as error:
        return reason(error)


def _handshake(target: GnmiTarget, plain: socket.socket) -> str:
    """Returns what is wrong with TLS in this configuration. Raises OSError."""
    with _context(target).wrap_socket(
        plain, server_hostname=target.tls_server_name or host_port(target.address)[0]
    ) as tls:
        tls.settimeout(1.0)
        try:
            closed = tls.recv(1) == b""  # in HTTP/2 a server sends first, and TLS 1.3 refuses a client only now
        except TimeoutError:
            closed = False
        if closed:
            asked = "" if target.tls_cert else ": does it require a client certificate (tls-cert and tls-key)?"
            return f"TLS: the server closes the connection after the handshake{asked}"
        return "" if tls.selected_alpn_protocol() == "h2" else "TLS: the server does not support HTTP/2"


def _speaks_tls(plain: socket.socket) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        context.wrap_socket(plain).close()
    except (ssl.SSLError, ConnectionError):
        return ""
    return "the server uses TLS, but the configuration says insecure"
