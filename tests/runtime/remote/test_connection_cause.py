# SPDX-License-Identifier: Apache-2.0
"""Why a connection fails: each cause has a sentence of its own, with what to do."""

import socket
import threading
from contextlib import contextmanager

import pytest
from helpers.remote_clients import TINY

from vdla.benchmarks.board.connection_faults import connection_faults, failed_connections
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.connection_cause import Cause, connection_fault
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.server import RemoteServer

NONE = Credentials()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def connections(folder):
    with failed_connections(folder) as connections:
        yield connections


MAKE = "make new ones with vdla board certificates"
SENTENCES = (
    "server must listen on port {port}, got a refused connection; "
    "start it with vdla board serve --listen, or check the port",
    "host must have an address, got none for board.invalid; check its name, or use its address",
    "server must listen with IPv6, got one that listens at 127.0.0.1:{port} only; "
    "use pynq://127.0.0.1:{port}, or serve with --listen [::1]:{port}",
    "certificate of the server must be signed by {folder}/strange/ca.pem, got another authority's; "
    "copy ca.pem from where the server's certificates were made",
    "certificate {folder}/strange-client/client.pem of the client must be signed by the server's authority, "
    "got another's; copy client.pem and client.key from where the server's certificates were made",
    f"certificate of the server must be valid now, got one that expired on 2020-01-31; {MAKE}, and restart the server",
    "certificate {folder}/expired-client/client.pem of the client must be valid now, "
    f"got one that expired on 2020-01-31; {MAKE}",
    "certificate of the server must name 127.0.0.1, got board.lab, 10.0.0.5; "
    "use one of these, or make certificates with vdla board certificates --host 127.0.0.1",
    "server must use TLS, as the client does, got a server without; "
    "serve with --tls, or leave tls out and connect through an SSH tunnel",
    "client must use TLS, as the server does, got no tls; pass tls=, the folder with the server's ca.pem, "
    "or name it in the file of a farm, which commands take as a device",
)


@pytest.mark.parametrize("number", range(len(SENTENCES)))
def test_each_cause_has_its_sentence(connections, folder, number):
    assert len(connections) == len(SENTENCES)
    address = connections[number].address
    sentence = SENTENCES[number].format(folder=folder, port=Address.parse(address).port)
    assert connections[number].error() == f"{address}: {sentence}"


def test_the_benchmark_counts_the_causes():
    assert connection_faults() == {"connection_causes": 8, "connection_causes_told": 8}


# --- servers of another kind ----------------------------------------------------------------------


@contextmanager
def listening(answer):
    """A port whose connections `answer` is called with."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def serve():
            while not ended.is_set():
                try:
                    answer(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        ended.set()
        with socket.create_connection(server.getsockname()):  # wakes the thread
            pass
        thread.join(5)


def greet(connection):
    with connection:
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        connection.recv(4096)


def test_a_port_of_another_service():
    with listening(greet) as address:
        fault = connection_fault(address, NONE)
    assert (fault.cause, str(fault)) == (
        Cause.OTHER_SERVICE,
        f"{address}: port {address.port} must be that of vdla board serve, got a service of another kind; "
        "check the port",
    )


def test_a_server_that_is_stopped():
    kept = []
    with listening(kept.append) as address:
        fault = connection_fault(address, NONE, 0.1)
    for connection in kept:
        connection.close()
    assert (fault.cause, str(fault)) == (
        Cause.NO_ANSWER,
        f"{address}: server must answer, got a connection but not a byte within 0.1 s; "
        "its process is stopped or overloaded: continue or restart it",
    )


def test_a_host_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(socket, "create_connection", timed_out)
    fault = connection_fault(Address("192.0.2.1", 7968), NONE)
    assert (fault.cause, str(fault)) == (
        Cause.NO_SERVER,
        "pynq://192.0.2.1:7968: host must answer, got nothing; check the address, the network and its firewalls",
    )


def timed_out(*_):
    raise TimeoutError("timed out")


def test_a_machine_without_the_family(monkeypatch):
    def unreachable(*_):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    fault = connection_fault(Address("2001:db8::1", 7968), NONE)
    assert (fault.cause, str(fault)) == (
        Cause.ADDRESS_FAMILY,
        "pynq://[2001:db8::1]:7968: this machine must have a route for IPv6 to 2001:db8::1, "
        "got network is unreachable; use the IPv4 address of the server",
    )


def test_a_client_without_its_certificate(connections, folder, tmp_path):
    (tmp_path / "ca.pem").write_bytes((folder / "good" / "ca.pem").read_bytes())
    secure = Address.parse(connections[3].address)
    fault = connection_fault(secure, Credentials(tmp_path, "0123456789abcdef"))
    assert (fault.cause, str(fault)) == (
        Cause.NO_CLIENT_CERTIFICATE,
        f"{secure}: client must show a certificate, got none in {tmp_path}; "
        "copy client.pem and client.key of the server's authority there",
    )


# --- a server does not start with certificates that no client accepts -----------------------------


def test_a_server_refuses_expired_certificates(connections, folder):
    with pytest.raises(RemoteError) as error:
        RemoteServer("sim", TINY, "127.0.0.1:0", credentials=Credentials(folder / "expired-server"))
    assert str(error.value) == (
        f"server: certificate {folder}/expired-server/server.pem must be valid now, "
        f"got one that expired on 2020-01-31; {MAKE}"
    )


@pytest.mark.parametrize("content", [b"", b"text", b"\xff", b"-----BEGIN CERTIFICATE-----\nMAA=\n"])
def test_a_file_that_is_no_certificate(tmp_path, content):
    (tmp_path / "ca.pem").write_bytes(content)
    with pytest.raises(RemoteError) as error:
        RemoteServer("sim", TINY, "127.0.0.1:0", credentials=Credentials(tmp_path))
    assert str(error.value) == f"credentials: {tmp_path}/ca.pem must be a certificate in PEM, got other content"
