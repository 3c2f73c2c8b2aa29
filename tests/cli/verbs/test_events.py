"""`gpuq events` prints the stream of the journal as lines of JSON, over breaks of the connection."""

from __future__ import annotations

import json

from tests.cli.conftest import Command, FakeApi, Reply, problem


def sent(number: int, name: str) -> str:
    data = {"seq": number, "at": "2026-11-23T16:46:05Z", "name": name, "jobs": [7], "body": {"line": "a: b"}}
    return f"id: {number}-5\nevent: {name}\ndata: {json.dumps(data)}\n\n"


def test_events_are_lines_of_json_and_none_is_missed_when_the_connection_breaks(gpuq: Command, api: FakeApi) -> None:
    begins = ": after 40\n\n"
    restarted = Reply(raw=b"<html>Bad Gateway", status=502)  # of a proxy that does not reach it
    api.on("GET", "/version", Reply({}), restarted, restarted, Reply({}))
    api.on(
        "GET",
        "/api/v1/events",
        Reply(cut_after=begins.encode()),
        Reply(cut_after=(begins + sent(41, "Submitted") + ": ping\n\n" + sent(42, "Launch") + "id: 43").encode()),
        restarted,
        Reply(raw=sent(43, "Started").encode()),
        problem(403, 5, "Only operators may see the events of all jobs.", "Name a job."),
    )
    done = gpuq("events", "7")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [(event["id"], event["seq"], event["name"]) for event in events] == [
        ("41-5", 41, "Submitted"),
        ("42-5", 42, "Launch"),
        ("43-5", 43, "Started"),
    ]
    assert events[0]["body"] == {"line": "a: b"}
    assert [request.query for request in api.asked("GET", "/api/v1/events")] == [
        {"job": "7"},
        {"job": "7", "after": "40"},
        {"job": "7", "after": "42-5"},
        {"job": "7", "after": "42-5"},
        {"job": "7", "after": "43-5"},
    ]
    assert (done.code, "Name a job." in done.err) == (5, True)
