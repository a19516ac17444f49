"""A time limit for every call of PYNQ.remote's client, which has none: a board that stops answering
would hang it.
"""

from __future__ import annotations

from typing import Any


def limit_calls(device: Any, timeout_s: float) -> None:  # noqa: ANN401  of PYNQ
    """Give every call of a remote device a deadline; other devices, and other clients, stay as they
    are.
    """
    channel, stubs = getattr(getattr(device, "client", None), "channel", None), getattr(device, "_stub", None)
    if channel is None or not isinstance(stubs, dict):
        return
    import grpc

    limited = grpc.intercept_channel(channel, _deadline(timeout_s))
    device._stub = {name: type(stub)(limited) for name, stub in stubs.items()}


def _deadline(timeout_s: float) -> Any:  # noqa: ANN401  of gRPC
    """An interceptor that gives every call a deadline."""
    import grpc

    class Deadline(
        grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]  # gRPC has no types
        grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
        grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
    ):
        """Sets the deadline of a call that has none."""

        def intercept_unary_unary(self, call: Any, details: Any, request: Any) -> Any:  # noqa: ANN401
            """A request and a response."""
            return call(details._replace(timeout=timeout_s), request)

        def intercept_unary_stream(self, call: Any, details: Any, request: Any) -> Any:  # noqa: ANN401
            """A request and a stream of responses."""
            return call(details._replace(timeout=timeout_s), request)

        def intercept_stream_unary(self, call: Any, details: Any, requests: Any) -> Any:  # noqa: ANN401
            """A stream of requests and a response."""
            return call(details._replace(timeout=timeout_s), requests)

    return Deadline()
