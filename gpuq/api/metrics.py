"""`/metrics` in Prometheus' text format: jobs by state, devices as last reported, and the dispatcher's own numbers.

Base units, `_total` for counters, and no job ids in labels. No state is kept between scrapes, so several API processes give the
same numbers, except for their own failed wake-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

import gpuq
from gpuq.api.context import ApiContext
from gpuq.api.live import Live
from gpuq.core.state.device import Vitals
from gpuq.core.state.job import ENDED, JobState
from gpuq.messages.live import DeviceStatus, DriftStatus, KindDrift, LiveView

MEDIA_TYPE = CONTENT_TYPE_LATEST


def render(counts: Mapping[JobState, int], live: Live, context: ApiContext) -> bytes:
    """All metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(counts, live, context))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, counts: Mapping[JobState, int], live: Live, context: ApiContext) -> None:
        self._counts = counts
        self._live = live
        self._wakes_failed = context.ringer.failed
        self._now = context.now()

    def collect(self) -> Iterable[Metric]:
        yield from _jobs(self._counts)
        yield _gauge("gpuq_build_info", "Which gpuq answers.", ("version",), [((gpuq.__version__,), 1)])
        yield _gauge("gpuq_redis_up", "Whether Redis answers.", (), [((), float(self._live.redis_up))])
        rings = CounterMetricFamily(
            "gpuq_api_rings_failed", "Wake-ups of the dispatcher that this API process could not send."
        )
        rings.add_metric((), self._wakes_failed)
        yield rings
        if self._live.age_s is not None:
            help_text = "Age of the dispatcher's live view."
            yield _gauge("gpuq_dispatcher_view_age_seconds", help_text, (), [((), self._live.age_s)])
        if self._live.view is not None:
            yield from _dispatcher(self._live.view)
            yield from _devices(self._live.view.devices, self._now)
            if self._live.view.drift is not None:
                yield from _drift(self._live.view.drift)


def _jobs(counts: Mapping[JobState, int]) -> Iterator[Metric]:
    rows = [((state.value,), float(counts.get(state, 0))) for state in JobState]
    yield _gauge("gpuq_jobs", "Jobs in the record by state.", ("state",), rows)
    submitted = CounterMetricFamily("gpuq_jobs_submitted", "Jobs ever committed to the record.")
    submitted.add_metric((), sum(counts.values()))
    yield submitted
    finished = CounterMetricFamily("gpuq_jobs_finished", "Jobs that ended, by outcome.", labels=("outcome",))
    for state in sorted(ENDED):
        finished.add_metric((state.value.lower(),), counts.get(state, 0))
    yield finished


def _dispatcher(view: LiveView) -> Iterator[Metric]:
    dispatcher = view.dispatcher
    if dispatcher.pass_seconds is not None:
        rows: list[tuple[tuple[str, ...], float]] = [((), dispatcher.pass_seconds)]
        yield _gauge("gpuq_schedule_pass_seconds", "Duration of the last scheduling pass.", (), rows)
    if dispatcher.passes is not None:
        passes = CounterMetricFamily("gpuq_schedule_passes", "Scheduling passes since the dispatcher started.")
        passes.add_metric((), dispatcher.passes)
        yield passes
    if dispatcher.model_version is not None:
        yield _gauge("gpuq_model_info", "The serving model.", ("version",), [((dispatcher.model_version,), 1)])
    if dispatcher.policy is not None:
        policy = dispatcher.policy
        chosen: list[tuple[tuple[str, ...], float]] = [((policy.chosen, policy.serving), 1)]
        yield _gauge(
            "gpuq_policy_info", "The policy in the settings, and the one that proposes.", ("chosen", "serving"), chosen
        )
        replaced = float(policy.fault is not None)
        yield _gauge(
            "gpuq_policy_replaced", "Whether the chosen policy was replaced after a fault.", (), [((), replaced)]
        )


def _drift(drift: DriftStatus) -> Iterator[Metric]:
    """Blank labels stand for all kinds. Only the kinds that deviate most have own series, so that their number is bounded."""
    for name, help_text, value in _DRIFT_GAUGES:
        rows = [
            ((one.kind, one.device_type), number)
            for one in (drift.overall, *drift.kinds)
            if (number := value(one)) is not None
        ]
        yield _gauge(name, help_text, ("kind", "type"), rows)
    yield _gauge(
        "gpuq_forecast_promised_ratio", "How often upper bounds are meant to hold.", (), [((), drift.promised)]
    )
    help_text = "Kinds whose memory bounds fail more often than promised."
    yield _gauge("gpuq_forecast_kinds_in_alarm", help_text, (), [((), float(drift.kinds_in_alarm))])


def _devices(devices: Iterable[DeviceStatus], now: float) -> Iterator[Metric]:
    devices = list(devices)
    yield from _vitals(devices)
    for name, help_text, value in _DEVICE_GAUGES:
        rows = [((device.id, device.host), number) for device in devices if (number := value(device)) is not None]
        yield _gauge(name, help_text, ("gpu", "host"), rows)
    heard: dict[str, float] = {}
    for device in devices:
        if device.read_at is not None:
            heard[device.host] = max(heard.get(device.host, device.read_at), device.read_at)
    ages = [((host,), max(0.0, now - at)) for host, at in heard.items()]
    yield _gauge("gpuq_worker_heartbeat_age_seconds", "Since a host's last reading.", ("host",), ages)


def _vitals(devices: Iterable[DeviceStatus]) -> Iterator[Metric]:
    """Energy, driver errors and throttling of each device that reports them."""
    energy = CounterMetricFamily(
        "gpuq_gpu_energy_joules", "Energy since the driver was loaded.", labels=("gpu", "host")
    )
    xids = CounterMetricFamily("gpuq_gpu_xid_errors", "Errors that the driver reported.", labels=("gpu", "host", "xid"))
    throttled = GaugeMetricFamily(
        "gpuq_gpu_throttled", "Clocks are lowered for this reason.", labels=("gpu", "host", "reason")
    )
    for device in devices:
        vitals = device.vitals or Vitals()
        if vitals.energy_joules is not None:
            energy.add_metric((device.id, device.host), vitals.energy_joules)
        for xid, count in vitals.xids or ():
            xids.add_metric((device.id, device.host, str(xid)), count)
        for reason in vitals.throttling or ():
            throttled.add_metric((device.id, device.host, reason), 1)
    yield from (energy, xids, throttled)


def _utilization(device: DeviceStatus) -> float | None:
    return None if device.utilization_pct is None else device.utilization_pct / 100


def _vital(name: str, scale: float = 1.0) -> Callable[[DeviceStatus], float | None]:
    def value(device: DeviceStatus) -> float | None:
        found: float | None = getattr(device.vitals, name, None)
        return None if found is None else found * scale

    return value


def _is_unwell(device: DeviceStatus) -> float | None:
    return None if device.read_at is None else float(device.unwell is not None)


def _points(one: KindDrift) -> float | None:
    return None if one.utilization_error_pct is None else one.utilization_error_pct / 100


_DRIFT_GAUGES = (
    (
        "gpuq_forecast_memory_coverage_ratio",
        "Attempts that stayed within their memory bound.",
        lambda d: d.memory_coverage,
    ),
    ("gpuq_forecast_memory_error_ratio", "Mean error of predicted memory.", lambda d: d.memory_error),
    ("gpuq_forecast_utilization_error_ratio", "Mean error of predicted utilisation, 0 to 1.", _points),
    ("gpuq_forecast_slowdown_error_ratio", "Mean error of predicted slowdowns.", lambda d: d.slowdown_error),
    ("gpuq_forecast_slowdown_coverage_ratio", "Slowdowns within their bound.", lambda d: d.slowdown_coverage),
    ("gpuq_forecast_alarm", "Whether memory bounds fail more often than promised.", lambda d: float(d.alarm)),
    (
        "gpuq_forecast_bound_widened_ratio",
        "Factor by which memory bounds are widened because of it.",
        lambda d: d.widened,
    ),
)
_DEVICE_GAUGES = (
    ("gpuq_gpu_utilization_ratio", "Utilisation of the device, 0 to 1.", _utilization),
    ("gpuq_gpu_memory_used_bytes", "Memory in use on the device.", lambda d: d.used_memory_bytes),
    ("gpuq_gpu_memory_total_bytes", "Memory of the device.", lambda d: d.total_memory_bytes),
    ("gpuq_gpu_memory_reserved_bytes", "Memory promised to jobs.", lambda d: d.promised_memory_bytes),
    ("gpuq_gpu_memory_foreign_bytes", "Memory of processes gpuq did not start.", lambda d: d.foreign_memory_bytes),
    ("gpuq_gpu_jobs", "Jobs on the device.", lambda d: len(d.residents)),
    ("gpuq_gpu_unwell", "Whether the device is given no new jobs after an error.", _is_unwell),
    ("gpuq_gpu_power_watts", "Power that the device takes.", _vital("power_watts")),
    ("gpuq_gpu_temperature_celsius", "Temperature of the device.", _vital("temperature_c")),
    ("gpuq_gpu_sm_activity_ratio", "Multiprocessors that are busy, 0 to 1.", _vital("sm_activity_pct", 0.01)),
    ("gpuq_gpu_memory_bandwidth_ratio", "Use of the memory's bandwidth, 0 to 1.", _vital("memory_bandwidth_pct", 0.01)),
)


def _gauge(
    name: str, help_text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family
