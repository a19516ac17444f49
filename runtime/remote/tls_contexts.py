# SPDX-License-Identifier: Apache-2.0
"""The TLS of the standard library with the files of credentials, for both sides.

The protocol is agreed in the handshake (ALPN): a client learns there what the server speaks.
"""

from __future__ import annotations

import ssl

from vdla.runtime.remote.credentials import CA, CLIENT, CLIENT_KEY, SERVER, SERVER_KEY, Credentials
from vdla.runtime.remote.errors import RemoteError

HTTP, GRPC = "http/1.1", "h2"


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """The context of a server; without a token, clients must show a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([HTTP])
    _load_pair(context, credentials, SERVER, SERVER_KEY)
    if credentials.needs_client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        _load_authority(context, credentials)
    return context


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """The context of a client, which knows the server by the authority and its name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([GRPC, HTTP])
    _load_authority(context, credentials)
    if credentials.has_client_certificate:
        _load_pair(context, credentials, CLIENT, CLIENT_KEY)
    return context


def _load_pair(context: ssl.SSLContext, credentials: Credentials, certificate: str, key: str) -> None:
    assert credentials.tls is not None
    for name in (key, certificate):
        credentials.file(name)  # names one that cannot be read
    try:
        context.load_cert_chain(credentials.tls / certificate, credentials.tls / key)
    except ssl.SSLError as error:
        raise _unusable(credentials, f"{certificate} and {key}", error) from None


def _load_authority(context: ssl.SSLContext, credentials: Credentials) -> None:
    try:
        context.load_verify_locations(cadata=credentials.file(CA).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(credentials, CA, error) from None


def _unusable(credentials: Credentials, names: str, error: Exception) -> RemoteError:
    return RemoteError(f"credentials: {names} in {credentials.tls} must be a certificate in PEM, got {error}")
