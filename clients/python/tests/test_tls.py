"""Gates over TLS: whom the client believes, what it shows, and what it makes of a refusal."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from countersign import AsyncClient, Client, CountersignError, GateError, TransportError
from tests.gate import ORIGIN, Gate, Served

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Authority:
    """Issues certificates that are good until tomorrow."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pem = _pem(builder.sign(self._key, hashes.SHA256()))

    def issue(self, folder: Path, name: str, names: list[x509.GeneralName], key: PrivateKey | None = None) -> None:
        """Writes NAME.pem, and NAME.tls with its key."""
        own = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), own.public_key())
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        (folder / f"{name}.pem").write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        encoded = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = folder / f"{name}.tls"
        file.touch(0o600)
        file.write_bytes(encoded)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
    ) -> x509.CertificateBuilder:
        now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - day).not_valid_after(now + day)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Secured:
    """A gate over TLS that takes no one without a certificate."""

    def __init__(self, folder: Path) -> None:
        self.gate, self.folder = Gate(folder), folder
        authority, stranger = Authority("tests"), Authority("strangers")
        (folder / "ca.pem").write_bytes(authority.pem)
        (folder / "strangers.pem").write_bytes(stranger.pem)
        authority.issue(folder, "server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        key = serialization.load_pem_private_key(self.gate.key("refund-1").read_bytes(), None)
        assert isinstance(key, ed25519.Ed25519PrivateKey)
        authority.issue(folder, "refund", [], key)
        stranger.issue(folder, "stranger", [])
        settings = '[tls]\ncertificate = "server.pem"\nkey = "server.tls"\nclient_ca = "ca.pem"\n'
        (folder / "tls.toml").write_text(settings + "require_client_certificate = true\n")
        words = ["serve", "--config", "tls.toml", "--data", "data", "--listen", "127.0.0.1:0"]
        self.server = Served(words, folder, {"PATH": os.environ["PATH"]})

    def client(self, agent: str = "refund-1", ca: str | None = "ca.pem", shows: str | None = "refund") -> Client:
        """A client that trusts this file and shows this certificate."""
        return Client(
            self.server.url,
            key=self.gate.key(agent),
            origin=ORIGIN,
            ca=None if ca is None else self.folder / ca,
            certificate=None if shows is None else self.folder / f"{shows}.pem",
            certificate_key=None if shows is None else self.folder / f"{shows}.tls",
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("tls"))
    yield secured
    secured.server.stop()


AGENT = 'Agent::"refund-1"'


def test_a_gate_over_tls_is_asked_with_the_key_of_the_certificate(secured: Secured) -> None:
    assert secured.server.url.startswith("https://")
    with secured.client() as client:
        assert client.observe(AGENT)[AGENT]["standing"] == "active"

    async def asynchronously() -> None:
        folder = secured.folder
        async with AsyncClient(
            secured.server.url,
            key=secured.gate.key("refund-1"),
            origin=ORIGIN,
            ca=folder / "ca.pem",
            certificate=folder / "refund.pem",
            certificate_key=folder / "refund.tls",
        ) as client:
            assert (await client.observe(AGENT))[AGENT]["standing"] == "active"

    anyio.run(asynchronously)


def test_another_agents_signature_is_refused_over_its_connection(secured: Secured) -> None:
    with secured.client(agent="fraud-1") as client, pytest.raises(GateError) as refused:
        client.observe(AGENT)
    assert refused.value.code == "certificate_mismatch"


@pytest.mark.parametrize(
    ("ca", "shows", "hint"),
    [
        (None, "refund", "`ca`"),
        ("strangers.pem", "refund", "`ca`"),
        ("ca.pem", None, "`certificate`"),
        ("ca.pem", "stranger", "`certificate`"),
    ],
)
def test_certificates_that_are_refused_are_said_at_once_and_nothing_is_in_doubt(
    secured: Secured, ca: str | None, shows: str | None, hint: str
) -> None:
    with secured.client(ca=ca, shows=shows) as client, pytest.raises(TransportError) as refused:
        client.act("billing", "freeze", {"account": "42"})
    assert hint in refused.value.hint
    assert refused.value.attempts == 1


def test_files_that_cannot_be_used_are_named(secured: Secured) -> None:
    with pytest.raises(CountersignError, match=r"nowhere\.pem"):
        Client("https://127.0.0.1:1", ca=secured.folder / "nowhere.pem")
    with pytest.raises(CountersignError, match="no certificate"):
        Client("https://127.0.0.1:1", certificate_key=secured.folder / "refund.tls")
