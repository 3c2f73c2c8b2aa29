"""Parse sizes, durations, moments, slowdowns and job ids as users write them. Each function raises BadInput with a fix."""

from __future__ import annotations

import re

from gpuq.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(?:([kmgt])(i?b?)|b)", re.IGNORECASE)
_POWER = {"K": 1, "M": 2, "G": 3, "T": 4}
_MAX_SIZE = 2**60

_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?")
_MINUTES = re.compile(r"\d+(?:\.\d+)?")
_MAX_DURATION = 10 * 366 * 86400

_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(\s*%)?")


def parse_size(text: str) -> int:
    """Bytes of `10G`, `512MiB`, `1.5 GB`. `G` and `GiB` are 2**30; `GB` is 10**9, as on a disk's label."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"`{text}` is not a size.", fix="Write a number above 0 with its unit: 10G, 512MiB, 1.5GB.")
    number, letter, suffix = match.groups()
    unit = 1
    if letter:
        base = 1000 if suffix.upper() == "B" else 1024
        unit = base ** _POWER[letter.upper()]
    # Without the check of the length, a thousand digits would become infinity.
    size = round(float(number) * unit) if len(number) <= 20 else _MAX_SIZE
    if not 0 < size < _MAX_SIZE:
        raise BadInput(f"a size of `{text}` makes no sense.", fix="Write a size above 0 and below 1024 PiB.")
    return size


def parse_duration(text: str) -> float:
    """Seconds of `30` (minutes, as in Slurm), `2h30m`, `45s`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`."""
    seconds = _duration(text.strip().lower())
    if seconds is None:
        raise BadInput(f"`{text}` is not a time.", fix="Write 30 (minutes), 2h30m, 45s, 01:30:00 or 1-12:00:00.")
    if not 0 < seconds <= _MAX_DURATION:
        raise BadInput(f"a time of `{text}` makes no sense.", fix="Write a time above 0 and below ten years.")
    return seconds


def _duration(text: str) -> float | None:
    if not text or len(text) > 40:
        return None
    if _MINUTES.fullmatch(text):
        return float(text) * 60
    if match := _CLOCK.fullmatch(text):
        days, *rest = match.groups()
        numbers = [int(part) for part in rest if part is not None]
        if any(part > 59 for part in numbers[1:]):
            return None
        # As Slurm: after days come hours; without days, two numbers are minutes and seconds.
        units = (3600, 60, 1) if days is not None or len(numbers) == 3 else (60, 1)
        return int(days or 0) * 86400 + sum(part * unit for part, unit in zip(numbers, units, strict=False))
    if match := _PARTS.fullmatch(text):
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), (86400, 3600, 60, 1), strict=True))
    return None


def parse_moment(text: str, now: float) -> float:
    """Unix seconds of `8h` (from `now`), or of a moment as in RFC 3339: `2026-07-01T08:00:00+02:00`; without an offset it is
    local time. Raises BadInput for one that has passed."""
    from datetime import datetime

    ahead = _duration(text.strip().lower())
    try:
        named = None if ahead is not None else datetime.fromisoformat(text.strip())
        moment = now + (ahead or 0.0) if named is None else named.timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            f"`{text}` is neither a time from now nor a date.",
            fix="Write 8h, 2-12:00:00, 2026-07-01T08:00 or 2026-07-01T08:00:00+02:00.",
        ) from None
    if named is not None and _is_skipped(named):
        raise BadInput(
            f"`{text}` does not exist: the clocks are put forward then.", fix="Name an hour earlier, or an hour later."
        )
    if moment <= now:
        raise BadInput(f"`{text}` has passed.", fix="Name a moment in the future, such as 8h for eight hours from now.")
    return _in_ten_years(text, moment, now)


def _is_skipped(moment: datetime) -> bool:
    """Whether local clocks never show this time, because they are put forward over it."""
    return moment.tzinfo is None and moment.fromtimestamp(moment.timestamp()) != moment


def _in_ten_years(text: str, moment: float, now: float) -> float:
    if moment > now + _MAX_DURATION:
        raise BadInput(f"`{text}` is more than ten years ahead.", fix="Name a moment in the next ten years.")
    return moment


_FROM_NOW = re.compile(r"now(?:\+([0-9]{1,9}) *([a-z]*))?")
_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_NAMED_TIMES = {"midnight": "00:00", "noon": "12:00"}
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


def parse_begin(text: str, now: float, after: float | None = None) -> float:
    """Unix seconds of a start: `22:00`, the next time that a clock shows this behind `after` (None: now), `now+1hour` as in Slurm
    (a number alone is seconds), or what `parse_moment` takes. Raises BadInput for one that has passed."""
    word = text.strip().lower()
    if match := _FROM_NOW.fullmatch(word):
        letters = (match[2] or "seconds").removesuffix("s")
        unit_s = next((_UNITS[unit] for unit in _UNITS if unit.startswith(letters)), None)
        if unit_s is None:
            raise BadInput(f"`{text}` has no unit that is known.", fix="Write now+90minutes, now+2hours or now+1day.")
        return _in_ten_years(text, now + int(match[1] or 0) * unit_s, now)
    if match := _OF_DAY.fullmatch(_NAMED_TIMES.get(word, word)):
        from datetime import datetime, timedelta

        hour, minute, second = (int(part or 0) for part in match.groups())
        from_ = now if after is None else after
        today = datetime.fromtimestamp(from_).replace(hour=hour, minute=minute, second=second, microsecond=0)  # noqa: DTZ006
        # Local time without an offset, so that a day with a change of the clocks is a day. On such a day a time may be skipped.
        days = (today + timedelta(days=ahead) for ahead in range(3))
        return next(day.timestamp() for day in days if day.timestamp() > from_ and not _is_skipped(day))
    if re.fullmatch(r"[0-9]+(:[0-9]+){1,2}", word):  # a duration elsewhere
        raise BadInput(f"`{text}` is no time that a clock shows.", fix="Write 22:00, or now+90minutes.")
    return parse_moment(text, now)


def parse_slowdown(text: str) -> float:
    """The ratio time together / time alone, 1.15 of `1.15` or `15%`. A bare number above 5 is rejected as a likely percentage."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or len(text) > 40:
        raise BadInput(f"`{text}` is not a slowdown.", fix="Write how much slower it may be than alone: 15% or 1.15.")
    number, percent = float(match[1]), match[2]
    ratio = 1 + number / 100 if percent else number
    if percent is None and number > 5:
        sentence = f"a slowdown of {match[1]} would be {match[1]} times as slow."
        raise BadInput(sentence, fix=f"Write {match[1]}% if you mean percent.")
    if ratio < 1:
        sentence = f"a slowdown of {match[1]} is below 1, which would be faster than alone."
        raise BadInput(sentence, fix="Write 15% or 1.15.")
    if ratio > 5:
        raise BadInput(f"a slowdown of {text.strip()} is above 5 times as slow.", fix="Write at most 400%.")
    return ratio


def whole(option: str, text: str | None, low: int, high: int) -> int | None:
    """The whole number given to `option`, None if it was not given. Raises BadInput unless it is from `low` to `high`."""
    if text is None:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()) or not low <= int(text) <= high:
        upwards = "on" if high >= 10**9 else f"to {high}"
        joined = "" if option.endswith("@") else " "
        fix = f"Write for example {option}{joined}{min(max(5, low), high)}."
        if option == "--priority" and text[:1].isalpha():
            fix = f"{fix} Slurm's `-p {text}` names a partition: leave it out."
        raise BadInput(f"{option} `{text}` is not a whole number from {low} {upwards}.", fix=fix)
    return int(text)


def parse_ranges(words: list[str]) -> list[tuple[int, int]]:
    """(first, last) id of each of `42`, `42-50`, `42,44`, in the given order."""
    ranges = []
    for text in (part for word in words for part in word.split(",")):
        match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", text.strip())
        if match is None:
            fix = "Write ids as 42, or a range as 42-50; `gpuq queue` lists them."
            raise BadInput(f"`{text}` is not a job id.", fix=fix)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise BadInput(f"the range {text} runs backwards.", fix=f"Write {last}-{first}.")
        ranges.append((first, last))
    return ranges


def several_ids(count: int) -> BadInput:
    """The refusal of `count` jobs where one is taken."""
    return BadInput(
        f"{count:,} jobs are named, and this takes one.", fix="Give one id; `gpuq queue 42 43` lists several."
    )
