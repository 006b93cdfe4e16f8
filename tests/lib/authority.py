"""Certificates for servers and clients of tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any


class Authority:
    """A CA and the certificates that it signs, as files in a folder. If they are not `strict`, they lack what RFC 5280
    requires in addition (the identifiers of keys, and what the CA's key is for), as many of private CAs do."""

    def __init__(self, folder: Path, name: str = "ca", strict: bool = True) -> None:
        self.folder, self.name, self._strict = folder, name, strict
        self._key, self._certificate = self._make(f"{name}", None, [])
        self.ca = self._write(name, self._key, self._certificate)[0]

    def issue(self, name: str, hosts: list[str]) -> tuple[Path, Path]:
        """Returns (certificate, key) for host names and addresses."""
        key, certificate = self._make(name, (self._key, self._certificate), hosts)
        return self._write(f"{self.name}-{name}", key, certificate)

    def _make(self, name: str, signer: Any, hosts: list[str]) -> tuple[Any, Any]:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(signer[1].subject if signer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        )
        if hosts:
            names = [
                x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
                for host in hosts
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if self._strict:
            of_signer = x509.AuthorityKeyIdentifier.from_issuer_public_key((signer[0] if signer else key).public_key())
            of_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            builder = builder.add_extension(of_signer, critical=False).add_extension(of_key, critical=False)
        if self._strict and signer is None:
            uses = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")  # fmt: skip
            usage = x509.KeyUsage(**{use: use in ("key_cert_sign", "crl_sign") for use in uses})
            builder = builder.add_extension(usage, critical=True)
        return key, builder.sign(signer[0] if signer else key, hashes.SHA256())

    def _write(self, name: str, key: Any, certificate: Any) -> tuple[Path, Path]:
        from cryptography.hazmat.primitives import serialization as form

        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(form.Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
        return paths
