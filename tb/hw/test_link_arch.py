import pytest

from celosia.hw.arch import link
from celosia.hw.arch.link import FrameError, Info, Operation, Request, Response, Status


@pytest.mark.parametrize(
    "request_",
    [
        Request(0, Operation.INFO, 0, 8),
        Request(255, Operation.READ, 0xFFFFFFFF, 1),
        Request(7, Operation.WRITE, 0x12345678, 3, b"\x7e\x7d\x00"),
        Request(7, 0x55, 1, 65535),
    ],
)
def test_requests_come_back(request_):
    assert link.decode_request(link.encode_request(request_)) == request_


@pytest.mark.parametrize(
    "answer",
    [
        Response(0, Operation.NONE, Status.BAD_FRAME),
        Response(255, Operation.READ, Status.OK, bytes(range(256))),
        Response(3, 0x7F, Status.BAD_REQUEST),
    ],
)
def test_answers_come_back(answer):
    assert link.decode_response(link.encode_response(answer)) == answer


def test_layout_of_a_request():
    raw = link.encode_request(Request(9, Operation.WRITE, 0x04030201, 0x0605, bytes(0x0605)))
    assert raw[:8].hex() == "0903050601020304"
    assert link.encode_response(Response(9, Operation.READ, Status.BUS_ERROR)).hex() == "098201"


@pytest.mark.parametrize("raw", [b"", b"\0\x81", b"\0\x02\0", b"\0\x82\x63"])
def test_no_answers(raw):
    with pytest.raises(FrameError, match="response: wanted"):
        link.decode_response(raw)


def test_no_request():
    with pytest.raises(FrameError, match="request: wanted at least 8 bytes, got 7"):
        link.decode_request(bytes(7))


def test_info_comes_back():
    info = Info(1, 4, 496, 32 << 20)
    assert Info.decode(info.encode()) == info
    with pytest.raises(FrameError, match="info: wanted 8 bytes, got 7"):
        Info.decode(bytes(7))


FAULTS = [
    (Request(0, Operation.NONE, 0, 4), True),
    (Request(0, 99, 0, 4), True),
    (Request(0, Operation.INFO, 0, 8), False),
    (Request(0, Operation.INFO, 0, 9), True),
    (Request(0, Operation.READ, 3, 5), False),
    (Request(0, Operation.READ, 0, 0), True),
    (Request(0, Operation.READ, 0, 49), True),
    (Request(0, Operation.READ, 0, 4, b"1234"), True),
    (Request(0, Operation.READ, 0xFFFFFFFC, 4), False),
    (Request(0, Operation.READ, 0xFFFFFFFC, 5), True),
    (Request(0, Operation.WRITE, 0, 4, b"123"), True),
    (Request(0, Operation.WRITE, 0, 3, b"123"), False),
    (Request(0, Operation.READ_REGISTERS, 8, 8), False),
    (Request(0, Operation.READ_REGISTERS, 2, 4), True),
    (Request(0, Operation.READ_REGISTERS, 0, 6), True),
    (Request(0, Operation.READ_REGISTERS, 4092, 8), True),
    (Request(0, Operation.READ_REGISTERS, 1 << 12, 4), True),
    (Request(0, Operation.WRITE_REGISTERS, 4, 4, b"1234"), False),
]


@pytest.mark.parametrize(("request_", "wrong"), FAULTS)
def test_fault(request_, wrong):
    assert link.fault(request_, 48) is wrong
