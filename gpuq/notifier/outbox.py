"""Messages on their way: kept until each address of their target took them. Each is sent to by itself, so that one that is away
neither delays another nor has it get a message again.

An address that refuses is tried again after 10 s, then after twice as long, up to ten minutes; after a day a message is given up.
Nothing that is logged or raised here contains an address: those hold passwords.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from gpuq.notifier.watch import Notification

log = logging.getLogger("gpuq.notifier")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _KEPT_S = 10.0, 600.0, 86_400.0
_APART = 3
"""More messages than this for one target at once are sent as one."""
_LISTED = 20
_MOST_WAITING = 10_000
_THREADS = 8

Send = Callable[[str, str, str], bool]
"""(address, title, body) -> whether it took it. Blocks."""
Place = tuple[str, int]
"""A target, and the number of the address in its list."""


class Backoff(msgspec.Struct, frozen=True):
    """An address that did not take a message is left alone until then (Unix seconds), and how long that was."""

    until: float = 0.0
    length_s: float = 0.0


class Outbox:
    """`waiting` are the messages that were not taken so far, oldest first."""

    def __init__(self, send: Send, waiting: Sequence[Notification] = ()) -> None:
        self._send = send
        self.waiting = list(waiting)
        self._pauses: dict[Place, Backoff] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="send")
        self._sending: dict[Place, tuple[Future[bool], list[Notification]]] = {}

    def add(self, messages: Sequence[Notification], targets: Mapping[str, Sequence[str]]) -> None:
        """Take messages for all addresses of their targets; beyond 10,000 the oldest are given up."""
        for message in messages:
            numbers = range(len(targets.get(message.target, ())) or 1)  # one of a target that is gone is given up aloud
            self.waiting += [msgspec.structs.replace(message, address=number) for number in numbers]
        if len(self.waiting) > _MOST_WAITING:
            log.warning("more than %d messages wait; the oldest are given up", _MOST_WAITING)
            del self.waiting[:-_MOST_WAITING]

    def turn(self, targets: Mapping[str, Sequence[str]], now: float) -> bool:
        """Note what was sent, and begin to send what may be sent now. Returns whether `waiting` has changed."""
        changed = self._note_sent(now)
        for place in {_place(message) for message in self.waiting}:
            target, number = place
            mine = [message for message in self.waiting if _place(message) == place]
            late = [message for message in mine if now - message.at > _KEPT_S]
            is_known = number < len(targets.get(target, ()))
            if late or not is_known:
                given_up = late if is_known else mine
                why = "took nothing for a day" if is_known else "is not in notify.toml any more"
                log.warning("target %s %s: %d messages are given up", _named(place), why, len(given_up))
                self._remove(given_up)
                changed = True
            elif place not in self._sending and now >= self._pauses.get(place, Backoff()).until:
                title, body, sent = _next(mine)
                self._sending[place] = (self._threads.submit(self._send, targets[target][number], title, body), sent)
        return changed

    def _note_sent(self, now: float) -> bool:
        changed = False
        for place, (future, sent) in list(self._sending.items()):
            if not future.done():
                continue
            del self._sending[place]
            if future.exception() is None and future.result():
                log.info("sent %d messages to %s", len(sent), _named(place))
                self._remove(sent)
                self._pauses.pop(place, None)
                changed = True
                continue
            length_s = min(_LONGEST_PAUSE_S, 2 * self._pauses.get(place, Backoff()).length_s or _FIRST_PAUSE_S)
            self._pauses[place] = Backoff(now + length_s, length_s)
            log.warning("target %s did not take a message; it is tried again in %.0f s", _named(place), length_s)
        return changed

    def _remove(self, messages: Sequence[Notification]) -> None:
        gone = set(messages)
        self.waiting = [message for message in self.waiting if message not in gone]

    @property
    def sends(self) -> bool:
        """Whether something is being sent."""
        return bool(self._sending)

    def close(self) -> None:
        """Begin nothing more; what is being sent ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _place(message: Notification) -> Place:
    return message.target, message.address


def _named(place: Place) -> str:
    """`mail`, and `mail (2)` for the second address of its list."""
    target, number = place
    return f"{target} ({number + 1})" if number else target


def _next(messages: list[Notification]) -> tuple[str, str, list[Notification]]:
    """(title, body, the messages that it is made of): one message, or a summary of many."""
    if len(messages) <= _APART:
        return messages[0].title, messages[0].body, messages[:1]
    # A line for each job, with what was last said of it. Messages kept by an earlier release do not name theirs.
    latest = {message if message.job is None else message.job: message for message in messages}
    counts = Counter(message.state for message in latest.values()).most_common()
    states = ", ".join(f"{count} {state}" for state, count in counts)
    lines = [message.title.removeprefix("gpuq: ") for message in latest.values()][:_LISTED]
    more = len(latest) - len(lines)
    return (
        f"gpuq: {len(messages)} messages about your jobs ({states})",
        "\n".join([*lines, *([f"and {more} more"] if more else [])]),
        list(messages),
    )


def send(address: str, title: str, body: str) -> bool:
    """Send by apprise. False if it is no address, or the service refused or did not answer."""
    from apprise import Apprise, AppriseAsset, NotifyFormat, PersistentStoreMode

    # Its log repeats addresses, and answers of services that repeat them.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    sender = Apprise(asset=AppriseAsset(app_id="gpuq", app_desc="gpuq", storage_mode=PersistentStoreMode.MEMORY))
    if not sender.add(address):
        return False
    # As text: what a job prints or is called is no markup.
    return bool(sender.notify(body=body, title=title, body_format=NotifyFormat.TEXT))
