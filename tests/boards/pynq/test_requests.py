# SPDX-License-Identifier: Apache-2.0
"""Requests that no client of PYNQ sends: each is answered with an error, and the board goes on."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.virtual_boards import write_bitstream

from vdla.hardware.config import Config

grpc = pytest.importorskip("grpc", reason="pynq is not installed (make test-board)")
pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")

from vdla.boards.virtual.board_files import BUFFERS, MANAGER  # noqa: E402
from vdla.runtime.devices.pynq_messages import messages  # noqa: E402

TIMEOUT_S = 20
SERVICES = {"device": "remote_device", "mmio": "mmio", "buffer": "buffer", "gpio": "gpio"}


class Caller:
    """The methods of the services as functions of the fields of their requests."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(f"{address}:7967")

    def _method(self, service: str, name: str):
        module = messages(SERVICES[service])
        (descriptor,) = module.DESCRIPTOR.services_by_name.values()
        method = descriptor.methods_by_name[name]
        kind = {
            ("device", "writefile"): "stream_unary", ("buffer", "write"): "stream_unary",
            ("device", "readfile"): "unary_stream", ("buffer", "read"): "unary_stream",
        }.get((service, name), "unary_unary")  # fmt: skip
        request, answer = getattr(module, method.input_type.name), getattr(module, method.output_type.name)
        path = f"/{descriptor.full_name}/{name}"
        return kind, request, getattr(self.channel, kind)(path, request.SerializeToString, answer.FromString)

    def __call__(self, service: str, name: str, *requests: dict, **fields):
        kind, request, call = self._method(service, name)
        if kind == "stream_unary":
            return call(iter([request(**each) for each in requests]), timeout=TIMEOUT_S)
        answer = call(request(**fields), timeout=TIMEOUT_S)
        return list(answer) if kind == "unary_stream" else answer

    def status(self, *call, **fields):
        """(status code, details) of a call that fails."""
        with pytest.raises(grpc.RpcError) as error:
            self(*call, **fields)
        return error.value.code(), error.value.details()

    def raw(self, path: str, content: bytes):
        return self.channel.unary_unary(path)(content, timeout=TIMEOUT_S)


@pytest.fixture(scope="module")
def call(address):
    caller = Caller(address)
    yield caller
    caller.channel.close()


@pytest.fixture
def buffer(call):
    """A buffer of 100 bytes."""
    identifier = call("buffer", "allocate", size=100, dtype="u1").buffer_id
    yield identifier
    call("buffer", "freebuffer", buffer_id=identifier)


REFUSED = grpc.StatusCode.FAILED_PRECONDITION


# --- buffers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -1, -(1 << 31), (1 << 31) - 1])
def test_sizes_that_cannot_be_allocated(call, size):
    code, text = call.status("buffer", "allocate", size=size)
    assert (code, text.split(": ")[0]) == (REFUSED, "contiguous memory")


def test_a_write_is_in_order_or_at_a_range(call, buffer):
    assert call("buffer", "write", *({"buffer_id": buffer, "data": part} for part in (b"ab", b"cd"))).msg == ""
    assert call("buffer", "write", {"buffer_id": buffer, "data": b"xy", "start": 1, "end": 3}).msg == ""
    assert call("buffer", "read", buffer_id=buffer, start=0, end=5)[0].data == b"axyd\xa5"  # the last byte is of others


@pytest.mark.parametrize(
    "request_fields",
    [{"data": b"x" * 101}, {"data": b""}, {"data": b"x", "start": 100}, {"data": b"x", "start": -1}],
    ids=["too long", "empty", "beyond", "before"],
)
def test_a_write_beyond_the_buffer_is_refused(call, buffer, request_fields):
    text = call("buffer", "write", {"buffer_id": buffer, **request_fields}).msg
    assert text.startswith("buffer: write must lie in the 100 bytes of the buffer, got ")


def test_ends_that_do_not_fit_the_data(call, buffer):
    fields = {"buffer_id": buffer, "data": b"x", "start": 1, "end": 5}
    assert call("buffer", "write", fields).msg == "buffer: end of a write must be 2, got 5"


@pytest.mark.parametrize(("start", "end"), [(0, 101), (-1, 5), (6, 5), (-5, -3)])
def test_a_read_beyond_the_buffer_is_refused(call, buffer, start, end):
    code, text = call.status("buffer", "read", buffer_id=buffer, start=start, end=end)
    assert (code, text) == (REFUSED, f"buffer: read must lie in the 100 bytes of the buffer, got {start} to {end}")


@pytest.mark.parametrize("identifier", ["", "1", "0" * 10000, "nobody-1"])
def test_a_buffer_that_nobody_has(call, identifier):
    for name in ("flush", "invalidate", "freebuffer", "physical_address", "virtual_address"):
        assert call("buffer", name, buffer_id=identifier).msg.startswith("contiguous memory: buffer must be allocated")
    assert call("buffer", "write", {"buffer_id": identifier, "data": b"x"}).msg.startswith("contiguous memory: ")
    assert call.status("buffer", "read", buffer_id=identifier)[0] == REFUSED


# --- registers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "length"),
    [
        (0x43C00000, 0x2000),
        (0x43BFFFFC, 8),
        (0, 4),
        (0x43C00001, 4),
        (0x43C00000, 0),
        (0x16800000, 4),
        ((1 << 64) - 4, 4),
    ],
)
def test_ranges_beyond_the_registers_are_not_mapped(call, base, length):
    text = call("mmio", "get_mmio", base_addr=base, length=length).msg
    assert text == f"mmio: range must lie in registers of the board, got {length} bytes at {base:#x}"


def test_offsets_and_lengths_beyond_a_range(call):
    found = call("mmio", "get_mmio", base_addr=0xF8000000, length=0x100).mmio_id
    assert found == call("mmio", "get_mmio", base_addr=0xF8000000, length=0x100).mmio_id
    for offset in (0x100, 2, 0xFFFFFFFC):
        expected = f"mmio: offset must be a multiple of 4 within the 256 bytes of the range, got 4 bytes at {offset}"
        assert call("mmio", "read", mmio_id=found, offset=offset, length=4).msg == expected
        assert call("mmio", "write", mmio_id=found, offset=offset, data=b"abcd").msg == expected
    assert call("mmio", "read", mmio_id=found, length=8).msg == "mmio: length of a read must be 1, 2 or 4, got 8"
    text = "mmio: data of a write must be whole words, got 3 bytes"
    assert call("mmio", "write", mmio_id=found, data=b"abc").msg == text


def test_parts_of_a_word_and_the_first_of_several_words(call):
    found = call("mmio", "get_mmio", base_addr=0xF8000000, length=0x200).mmio_id
    assert call("mmio", "write", mmio_id=found, offset=0x30, data=bytes(range(1, 9))).msg == ""
    read = [
        call("mmio", "read", mmio_id=found, offset=at, length=n).data for at, n in ((0x30, 1), (0x30, 2), (0x34, 4))
    ]
    assert read == [0x01, 0x0201, 0]  # as on a board, whose server sets one word in a call


@pytest.mark.parametrize("identifier", ["", "a-b-c", "x-f8000000-100", "1-2-3-4", "-" * 5000])
def test_a_range_that_nobody_mapped(call, identifier):
    text = call("mmio", "read", mmio_id=identifier, length=4).msg
    assert text.startswith("mmio: range must be mapped on this run of the board, got ")
    assert len(text) < 120


# --- files and pins -------------------------------------------------------------------------------


def test_files_that_are_not_there(call):
    code, text = call.status("device", "readfile", file_path="/etc/passwd")
    assert (code, text) == (REFUSED, "board file: path must be that of a file, got '/etc/passwd'")
    assert not call("device", "existsfile", file_path="/etc/passwd").exists


def test_writes_beside_the_folders(call):
    assert call.status("device", "writefile", {"file_path": "/etc/x", "data": b"x"})[0] == REFUSED
    two = ({"file_path": "/tmp/a", "data": b"x"}, {"file_path": "/tmp/b", "data": b"x"})
    assert "path must be one in a stream" in call.status("device", "writefile", *two)[1]
    assert call.status("device", "writefile", {"file_path": "/tmp/a"})[0] == REFUSED


def test_a_bitstream_that_is_none(call):
    call("device", "writefile", {"file_path": "/lib/firmware/x.bin", "data": b"\0" * 8})
    code, text = call.status("device", "writefile", {"file_path": MANAGER + "firmware", "data": b"x.bin"})
    assert (code, text) == (REFUSED, "fabric: bitstream must be for the virtual board, got one for an FPGA")
    assert call("device", "readfile", file_path=MANAGER + "state")[0].data == b"write error\n"


def test_pins_that_are_not_there(call):
    assert "index must be from 906 to 1023, got 5" in call.status("gpio", "get_gpio", index=5, direction="in")[1]
    assert "direction must be in or out" in call.status("gpio", "get_gpio", index=960, direction="up")[1]
    assert "pin must be exported, got 'no'" in call.status("gpio", "read", gpio_id="no")[1]
    pin = call("gpio", "get_gpio", index=960, direction="in").gpio_id
    assert "must be an output" in call.status("gpio", "write", gpio_id=pin, value=1)[1]
    assert "value must be 0 or 1, got 2" in call.status("gpio", "write", gpio_id=pin, value=2)[1]
    assert call("gpio", "get_gpio_base_path", target_label="pmc_gpio").base_path == ""


# --- whatever else --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["download", "shutdown", "set_pl_clk"])
def test_what_no_client_calls_is_not_there(call, name):
    with pytest.raises(grpc.RpcError) as error:
        call.raw(f"/remote_device.RemoteDevice/{name}", b"")
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_random_messages_leave_the_board_alive_and_empty(call):
    generator, codes = random.Random(5), set()
    paths = ["/mmio.Mmio/read", "/mmio.Mmio/get_mmio", "/buffer.RemoteBuffer/allocate", "/buffer.RemoteBuffer/flush",
             "/gpio.Gpio/get_gpio", "/remote_device.RemoteDevice/existsfile"]  # fmt: skip
    for _ in range(500):
        try:
            call.raw(generator.choice(paths), generator.randbytes(generator.randrange(40)))
        except grpc.RpcError as error:
            codes.add(error.code())
    assert codes <= {grpc.StatusCode.INTERNAL, REFUSED}
    assert codes
    assert call("device", "existsfile", file_path="/proc/version").exists
    assert call("device", "readfile", file_path=BUFFERS)[0].data == b"[]"


def test_clients_at_once_get_their_own_bytes(call):
    def round_trips(number: int) -> bool:
        data, same = bytes([number]) * 5000, True
        for _ in range(20):
            found = call("buffer", "allocate", size=len(data)).buffer_id
            call("buffer", "write", {"buffer_id": found, "data": data})
            same &= call("buffer", "read", buffer_id=found)[0].data == data
            same &= call("buffer", "freebuffer", buffer_id=found).msg == ""
        return same

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(round_trips, range(1, 9))) == [True] * 8
    assert call("device", "readfile", file_path=BUFFERS)[0].data == b"[]"


def test_a_message_that_is_too_large_is_refused(call, buffer):
    code, _ = call.status("buffer", "write", {"buffer_id": buffer, "data": bytes(5 << 20)})
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_bitstream_can_be_loaded_while_others_are_refused(call, tmp_path):
    """The fabric that a bad bitstream leaves is the one from before."""
    bit = write_bitstream(tmp_path, Config.preset("tiny"))
    from vdla.boards.bit_file import read_bit

    payload = read_bit(bit).payload
    words = b"".join(payload[at : at + 4][::-1] for at in range(0, len(payload), 4))
    for name, content in (("good", words), ("bad", b"\0" * 8)):
        call("device", "writefile", {"file_path": f"/lib/firmware/{name}.bin", "data": content})
    call("device", "writefile", {"file_path": MANAGER + "firmware", "data": b"good.bin"})
    call.status("device", "writefile", {"file_path": MANAGER + "firmware", "data": b"bad.bin"})
    registers = call("mmio", "get_mmio", base_addr=0x43C00000, length=0x1000).mmio_id
    assert call("mmio", "read", mmio_id=registers, offset=0, length=4).data == 0x56444C41
