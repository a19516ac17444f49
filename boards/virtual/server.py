# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of a virtual board: its services on one port, as the board's image has them.

A server can drop all its connections and return to the same port, which is how a fault does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Protocol

import grpc

from vdla.boards.virtual.guard import Guard
from vdla.support.errors import Error

PORT = 7967
"""The port that the client of PYNQ.remote connects to."""
_WORKERS = 16
_MOST_REQUESTS = 64  # at a time, the waiting ones included
_GRACE_S = 1.0
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the port is an error
    ("grpc.max_receive_message_length", 4 << 20),
    ("grpc.max_metadata_size", 16 << 10),
)
_STREAMS = {  # methods that take a stream, and that answer with one
    "remote_device.RemoteDevice": (("writefile",), ("readfile",)),
    "buffer.RemoteBuffer": (("write",), ("read",)),
}


class ServeError(Error, RuntimeError):
    """An address that cannot be served."""


class Service(Protocol):
    """A service: its public methods have the names of the protocol's."""

    name: str


class BoardServer:
    """Serves `services` at `address:port`; a port of 0 is chosen by the system."""

    def __init__(self, services: Sequence[tuple[Service, ModuleType]], guard: Guard, address: str, port: int) -> None:
        self._handlers = [_handler(service, messages, guard) for service, messages in services]
        self.address = address
        self.port = port
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Listen; ServeError where the port is taken."""
        pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="vdla-board")
        server = grpc.server(pool, options=_OPTIONS, maximum_concurrent_rpcs=_MOST_REQUESTS)
        server.add_generic_rpc_handlers(self._handlers)
        target = f"{self.address}:{self.port}"
        try:
            bound = server.add_insecure_port(target)
        except RuntimeError:
            bound = 0
        if not bound:
            raise ServeError(f"board serve: address must be free, got {target} (--address or --port gives another)")
        if not self.address.startswith("unix:"):
            self.port = bound
        server.start()
        self._server = server

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """End all requests, after a while by force."""
        server, self._server = self._server, None
        if server is not None:
            server.stop(grace_s).wait()


def _handler(service: Service, messages: ModuleType, guard: Guard) -> grpc.GenericRpcHandler:
    """The methods of a service, as its descriptor lists them."""
    package, _, name = service.name.rpartition(".")
    descriptor = next(d for d in messages.DESCRIPTOR.services_by_name.values() if d.full_name == f"{package}.{name}")
    takes, answers = _STREAMS.get(service.name, ((), ()))
    methods = {}
    for method in descriptor.methods:
        function = getattr(service, method.name, None)
        if function is None:
            continue  # gRPC answers UNIMPLEMENTED
        path = f"/{service.name}/{method.name}"
        codec = {
            "request_deserializer": getattr(messages, method.input_type.name).FromString,
            "response_serializer": getattr(messages, method.output_type.name).SerializeToString,
        }
        if method.name in takes:
            methods[method.name] = grpc.stream_unary_rpc_method_handler(guard.stream(path, function), **codec)
        elif method.name in answers:
            methods[method.name] = grpc.unary_stream_rpc_method_handler(guard.answers(path, function), **codec)
        else:
            methods[method.name] = grpc.unary_unary_rpc_method_handler(guard.unary(path, function), **codec)
    return grpc.method_handlers_generic_handler(service.name, methods)
