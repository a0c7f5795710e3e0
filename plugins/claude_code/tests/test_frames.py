"""Claude Code's frames and the line client's messages are the same things in other words."""

from __future__ import annotations

import json

import pytest

from jam_claude_code.frames import FRAME_BYTES, WHOLE_BYTES, Frames
from jamcore.api import CUT, EVENT_TEXT

pytestmark = pytest.mark.unprivileged


def message(frame: object) -> object:
    """Return a frame as the line client reads it."""
    return json.loads(Frames().to_message(json.dumps(frame).encode()))


def test_a_question_and_its_answer() -> None:
    """What is asked keeps its number in both directions."""
    sent = Frames().to_frame(b'{"id":7,"method":"initialize","params":{"hooks":null}}')
    assert sent is not None
    assert json.loads(sent) == {
        "type": "control_request",
        "request_id": "7",
        "request": {"subtype": "initialize", "hooks": None},
    }
    told = {"type": "control_response", "response": {"subtype": "success", "request_id": "7", "response": {"pid": 1}}}
    assert message(told) == {"id": 7, "result": {"pid": 1}}
    failed = {"type": "control_response", "response": {"subtype": "error", "request_id": "7", "error": "no"}}
    assert message(failed) == {"id": 7, "error": {"code": -32000, "message": "no"}}


def test_a_question_of_the_program_and_what_it_hears() -> None:
    """An answer or a refusal, once; none any more when it withdrew the question."""
    asked = json.dumps({"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool", "input": {}}}).encode()
    for reply, heard in (
        (b'{"id":"r","result":{"behavior":"deny"}}', {"subtype": "success", "request_id": "r", "response": {"behavior": "deny"}}),
        (b'{"id":"r","error":{"code":1,"message":"no"}}', {"subtype": "error", "request_id": "r", "error": "no"}),
    ):
        framing = Frames()
        assert json.loads(framing.to_message(asked)) == {
            "id": "r",
            "method": "can_use_tool",
            "params": {"subtype": "can_use_tool", "input": {}},
        }
        said = framing.to_frame(reply)
        assert said is not None
        assert json.loads(said) == {"type": "control_response", "response": heard}
        assert framing.to_frame(reply) is None
    framing = Frames()
    framing.to_message(asked)
    framing.to_message(b'{"type":"control_cancel_request","request_id":"r"}')
    assert framing.to_frame(b'{"id":"r","result":{"behavior":"allow"}}') is None


def test_what_is_told_goes_through_whole() -> None:
    """Every other frame is a notification named by its type; what Jam tells is the frame itself."""
    frame = {"type": "result", "is_error": False, "text": 'a"\\\n'}
    assert message(frame) == {"method": "result", "params": frame}
    told = Frames().to_frame(json.dumps({"method": "user", "params": {"type": "user", "uuid": "u"}}).encode())
    assert told is not None
    assert json.loads(told) == {"type": "user", "uuid": "u"}


@pytest.mark.parametrize(
    "frame",
    [
        {"id": 1, "result": {}},
        [],
        {"type": 7},
        {"type": "control_response"},
        {"type": "control_response", "response": {"request_id": "x", "subtype": "success"}},
        {"type": "control_response", "response": {"request_id": "²", "subtype": "success"}},
        {"type": "control_request", "request_id": 3, "request": {"subtype": "x"}},
        {"type": "control_request", "request_id": "r", "request": []},
    ],
    ids=str,
)
def test_what_is_no_frame_is_no_message(frame: object) -> None:
    """It is never taken for an answer or a question: the client refuses it, with its first words."""
    assert message(frame) == {"frame": frame}


def test_a_long_frame_loses_the_end_of_its_texts() -> None:
    """A picture that the agent looked at is megabytes that nobody is shown; a question is never cut, for it is answered with its input."""
    picture = "x" * WHOLE_BYTES
    told = message({"type": "user", "message": {"content": [{"data": picture}]}, "uuid": "u"})
    assert isinstance(told, dict)
    data = told["params"]["message"]["content"][0]["data"]
    assert len(data) == EVENT_TEXT
    assert data.endswith(CUT)
    assert told["params"]["uuid"] == "u"
    asked = message({"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool", "input": {"c": picture}}})
    assert isinstance(asked, dict)
    assert asked["params"]["input"]["c"] == picture


def test_half_a_character_in_a_long_frame_has_no_bytes() -> None:
    """In every other frame the line client mends it."""
    line = b'{"type":"user","text":"a\\ud83d","rest":"' + b"x" * WHOLE_BYTES + b'"}'
    assert json.loads(Frames().to_message(line))["params"]["text"] == "a?"


def test_lines_are_found_wherever_they_are_cut() -> None:
    """Every way of cutting gives the same messages, and what is left at the end is known to be unfinished."""
    data = b'{"type":"a"}\n\n{"type":"b"}\nrest'
    whole = [b'{"method":"a","params":{"type":"a"}}', b'{"method":"b","params":{"type":"b"}}']
    for at in range(len(data)):
        assert received(data[:at], data[at:]) == (whole, 4)
    assert received(*(bytes([byte]) for byte in data)) == (whole, 4)


def received(*chunks: bytes) -> tuple[list[bytes], int]:
    """Return all messages in these chunks, and how much of the next is there."""
    splitter = Frames().splitter()
    return [message for chunk in chunks for message in splitter.feed(chunk)], splitter.pending


def test_a_line_without_an_end_is_refused_in_time() -> None:
    """No memory is filled with what will never be a message."""
    chunk = b"x" * (FRAME_BYTES // 2 + 1)
    with pytest.raises(ValueError, match="a line of more than"):
        received(chunk, chunk)


def test_an_answer_that_nobody_waits_for_is_not_sent() -> None:
    """The program withdrew its question, or never asked it."""
    assert Frames().framed(b'{"id":"r","result":{"behavior":"allow"}}') == b""
    assert Frames().framed(b'{"method":"user","params":{"type":"user"}}') == b'{"type":"user"}\n'
