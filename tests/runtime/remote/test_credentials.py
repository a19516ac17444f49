# SPDX-License-Identifier: Apache-2.0
"""Who may use a server: TLS, mutual certificates, tokens, and what is never allowed."""

import errno
import os
import stat

import pytest
from helpers.remote_clients import TINY, right

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.certificates import write_certificates
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.open_calls import board_status
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import TRANSPORTS, RemoteServer

TOKEN = "0123456789abcdef"
OTHER = "0123456789abcdeg"


@pytest.fixture(params=TRANSPORTS)
def transport(request, monkeypatch):
    monkeypatch.setattr("vdla.runtime.remote.server.default_transport", lambda: request.param)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder, ["localhost", "127.0.0.1"])
    return folder


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers")
    write_certificates(folder, ["localhost", "127.0.0.1"])
    return folder


def serve(**credentials):
    return RemoteServer("sim", TINY, "127.0.0.1:0", credentials=Credentials.of(**credentials))


def refused(call, *arguments, **named):
    with pytest.raises(RemoteError) as error:
        call(*arguments, **named)
    return str(error.value)


def test_a_token_opens_the_server_and_a_wrong_one_does_not(transport, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with serve(token=TOKEN) as server:
        address = str(server.address)
        with RemoteDevice(TINY, address, token_file=tmp_path / "token") as device:
            assert right(device)
        for wrong in ({}, {"token": OTHER}):
            text = f"{address}: token must be that of the server, got another or none"
            assert refused(RemoteDevice, TINY, address, **wrong) == text
            assert refused(board_status, address, Credentials.of(**wrong)) == text
        assert server.status().runs == 1


def test_tokens_are_compared_whole():
    credentials = Credentials.of(token=TOKEN)
    assert credentials.allows(f"Bearer {TOKEN}")
    for wrong in (None, "", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"bearer {TOKEN}", "Bearer é"):
        assert not credentials.allows(wrong)


def test_mutual_certificates(transport, certificates, strangers):
    with serve(tls=certificates) as server:
        with RemoteDevice(TINY, str(server.address), tls=certificates) as device:
            assert right(device)
        for wrong in ({}, {"tls": strangers}):
            refused(RemoteDevice, TINY, str(server.address), connect_s=0.1, **wrong)
        assert server.status().sessions == 0


def test_a_token_over_tls_needs_no_certificate_of_the_client(transport, certificates, tmp_path):
    (tmp_path / "ca.pem").write_bytes((certificates / "ca.pem").read_bytes())
    with serve(tls=certificates, token=TOKEN) as server:
        with RemoteDevice(TINY, str(server.address), tls=tmp_path, token=TOKEN) as device:
            assert right(device)
        assert "token must be that of the server" in refused(
            RemoteDevice, TINY, str(server.address), tls=certificates, token=OTHER
        )


@pytest.mark.parametrize(("given", "got"), [({}, "none"), ({"token": TOKEN}, "a token without TLS")])
def test_others_cannot_reach_a_server_without_credentials(given, got):
    for host in ("0.0.0.0", "board.lab"):
        assert refused(RemoteServer, "sim", TINY, f"{host}:0", credentials=Credentials.of(**given)) == (
            f"server: credentials must be set to listen on {host}, which others can reach, got {got}; "
            "make certificates with vdla board certificates and pass --tls"
        )


def test_a_token_is_not_sent_unencrypted():
    assert refused(RemoteDevice, TINY, "pynq://192.0.2.1:1", token=TOKEN) == (
        "pynq://192.0.2.1:1: tls must be given with a token, which must not be sent unencrypted, got none"
    )
    Credentials.of(token=TOKEN).require_safe_client(Address.parse("127.0.0.2:1"))


@pytest.mark.parametrize("token", ["short", "0123456789 abcdef", "0123456789abcdé0", "x" * 5000])
def test_a_token_is_long_and_printable(token):
    assert refused(Credentials.of, token=token) == (
        f"credentials: token must be 16 to 4096 printable ASCII characters without spaces, got {len(token)} characters"
    )


def test_files_that_cannot_be_read(tmp_path):
    assert refused(Credentials.of, token_file=tmp_path / "absent") == (
        f"credentials: {tmp_path / 'absent'}: no such file"
    )
    assert refused(serve, tls=tmp_path) == (f"credentials: {tmp_path / 'ca.pem'}: no such file")
    assert refused(Credentials.of, token=TOKEN, token_file=tmp_path) == (
        "credentials: token and token_file must not both be given, got both"
    )


def test_certificates_are_not_overwritten_and_keys_are_private(certificates, tmp_path):
    assert refused(write_certificates, certificates, ["a"]) == (
        f"certificates: {certificates / 'ca.pem'} must not exist, got a file; choose another folder"
    )
    assert refused(write_certificates, tmp_path, []) == "certificates: hosts must be names or addresses, got none"
    for name in ("ca.key", "server.key", "client.key"):
        assert stat.S_IMODE(os.stat(certificates / name).st_mode) == 0o600


def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch):
    """Neither a key of 0 bytes, nor some files that keep the next attempt from writing all."""
    begun, write = [], os.fdopen

    def fills_up(handle, mode):
        begun.append(handle)
        if len(begun) == 4:
            os.close(handle)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, mode)

    monkeypatch.setattr(os, "fdopen", fills_up)
    with pytest.raises(OSError, match="No space left on device") as error:
        write_certificates(tmp_path, ["localhost"])
    assert error.value.filename == str(tmp_path / "server.key") and list(tmp_path.iterdir()) == []
    assert len(write_certificates(tmp_path, ["localhost"])) == 6
