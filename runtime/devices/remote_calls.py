"""A connection for PYNQ.remote's client that always returns: each call has a time limit, and a lost
board is looked for again soon.

PYNQ's own has no limit, so that a board that stops answering would hang it, and gRPC waits for many
seconds before it connects again.
"""

from __future__ import annotations

from typing import Any

_RECONNECT_S = 3.0
_BACKOFF_MS = tuple((f"grpc.{which}_reconnect_backoff_ms", 200) for which in ("initial", "min", "max"))
_MARK = "_vdla_limited"


def limit_calls(device: Any, timeout_s: float) -> None:  # noqa: ANN401  of PYNQ
    """Give the calls of a remote device a deadline, once; any other device stays as it is."""
    stubs, address = getattr(device, "_stub", None), getattr(device, "ip_addr", None)
    if address is None or not isinstance(stubs, dict) or hasattr(device, _MARK):
        return
    import grpc

    channel = grpc.insecure_channel(f"{address}:{device.port}", _BACKOFF_MS)
    limited = grpc.intercept_channel(channel, _deadline(timeout_s))
    device._stub = {name: type(stub)(limited) for name, stub in stubs.items()}
    setattr(device, _MARK, channel)


def await_board(device: Any) -> None:  # noqa: ANN401  of PYNQ
    """Wait some seconds for a remote device that may come back; ConnectionError if it does not.

    A call would not do: the channel connects again only while something waits for it.
    """
    channel = getattr(device, _MARK, None)
    if channel is None:
        return
    import grpc

    try:
        grpc.channel_ready_future(channel).result(timeout=_RECONNECT_S)
    except grpc.FutureTimeoutError:
        raise ConnectionError(f"no answer from {device.ip_addr}:{device.port} in {_RECONNECT_S:g} s") from None


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
