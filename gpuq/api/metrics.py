"""`/metrics` in Prometheus' text format: jobs by state, devices as last reported, and the dispatcher's own numbers.

Base units, `_total` for counters, and neither job ids nor kinds nor users in labels. No state is kept between scrapes, so several
API processes give the same numbers, except for their own failed wake-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

import gpuq
from gpuq.api.context import ApiContext
from gpuq.api.live import Live
from gpuq.core.state.job import ENDED, JobState
from gpuq.messages.live import DeviceStatus, DriftStatus, KindDrift, LiveView

MEDIA_TYPE = CONTENT_TYPE_LATEST
_Rows = Mapping[Any, float | None]
"""Tuple with the values of the labels -> number; a row without a number is left out."""


def render(counts: Mapping[JobState, int], live: Live, context: ApiContext) -> bytes:
    """All metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Snapshot([*_gpuq(counts, live, context.ringer.failed), *_live_view(live.view, context.now())]))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _gpuq(counts: Mapping[JobState, int], live: Live, wakes_failed: int) -> Iterator[Metric]:
    states = {(state.value,): counts.get(state, 0) for state in JobState}
    yield _gauge("gpuq_jobs", "Jobs in the record by state.", states, "state")
    yield _counter("gpuq_jobs_submitted", "Jobs ever committed to the record.", {(): sum(counts.values())})
    finished = {(state.value.lower(),): counts.get(state, 0) for state in sorted(ENDED)}
    yield _counter("gpuq_jobs_finished", "Jobs that ended, by outcome.", finished, "outcome")
    yield _gauge("gpuq_build_info", "Which gpuq answers.", {(gpuq.__version__,): 1}, "version")
    yield _gauge("gpuq_redis_up", "Whether Redis answers.", {(): live.redis_up})
    failed = "Wake-ups of the dispatcher that this API process could not send."
    yield _counter("gpuq_api_rings_failed", failed, {(): wakes_failed})
    yield from _known("gpuq_dispatcher_view_age_seconds", "Age of the dispatcher's live view.", live.age_s)


def _live_view(view: LiveView | None, now: float) -> Iterator[Metric]:
    if view is None:
        return
    dispatcher, policy = view.dispatcher, view.dispatcher.policy
    yield from _known("gpuq_schedule_pass_seconds", "Duration of the last scheduling pass.", dispatcher.pass_seconds)
    if dispatcher.passes is not None:
        passes = {(): dispatcher.passes}
        yield _counter("gpuq_schedule_passes", "Scheduling passes since the dispatcher started.", passes)
    help_text = "Epoch of the leading dispatcher: rises by one with each takeover and each restart."
    yield from _known("gpuq_dispatcher_epoch", help_text, dispatcher.epoch)
    if dispatcher.model_version is not None:
        yield _gauge("gpuq_model_info", "The serving model.", {(dispatcher.model_version,): 1}, "version")
    if policy is not None:
        chosen = {(policy.chosen, policy.serving): 1}
        yield _gauge(
            "gpuq_policy_info", "The policy in the settings, and the one that proposes.", chosen, "chosen", "serving"
        )
        replaced = {(): policy.fault is not None}
        yield _gauge("gpuq_policy_replaced", "Whether the chosen policy was replaced after a fault.", replaced)
    yield from _devices(view.devices)
    heard = {
        (host.name,): None if host.reported_at is None else max(0.0, now - host.reported_at) for host in view.hosts
    }
    yield _gauge("gpuq_worker_heartbeat_age_seconds", "Since a host's last report.", heard, "host")
    if view.drift is not None:
        yield from _drift(view.drift)


def _drift(drift: DriftStatus) -> Iterator[Metric]:
    """Over all kinds. A kind is no label: it has its user and script, and there is no end of them."""
    for name, help_text, value in _DRIFT_GAUGES:
        yield from _known(name, help_text, value(drift.overall))
    promised = {(): drift.promised}
    yield _gauge("gpuq_forecast_promised_ratio", "How often upper bounds are meant to hold.", promised)
    in_alarm = "Kinds whose memory bounds fail more often than promised."
    yield _gauge("gpuq_forecast_kinds_in_alarm", in_alarm, {(): drift.kinds_in_alarm})


def _devices(devices: Sequence[DeviceStatus]) -> Iterator[Metric]:
    reporting = [(device.id, device.host, device.vitals) for device in devices if device.vitals]
    energy = {(gpu, host): vitals.energy_joules for gpu, host, vitals in reporting}
    xids = {(gpu, host, str(xid)): count for gpu, host, vitals in reporting for xid, count in vitals.xids or ()}
    throttled = {(gpu, host, reason): 1 for gpu, host, vitals in reporting for reason in vitals.throttling or ()}
    yield _counter("gpuq_gpu_energy_joules", "Energy since the driver was loaded.", energy, "gpu", "host")
    yield _counter("gpuq_gpu_xid_errors", "Errors that the driver reported.", xids, "gpu", "host", "xid")
    yield _gauge("gpuq_gpu_throttled", "Clocks are lowered for this reason.", throttled, "gpu", "host", "reason")
    for name, help_text, value in _DEVICE_GAUGES:
        yield _gauge(name, help_text, {(device.id, device.host): value(device) for device in devices}, "gpu", "host")


def _vital(name: str, scale: float = 1.0) -> Callable[[DeviceStatus], float | None]:
    def value(device: DeviceStatus) -> float | None:
        found: float | None = getattr(device.vitals, name, None)
        return None if found is None else found * scale

    return value


def _is_unwell(device: DeviceStatus) -> float | None:
    return None if device.read_at is None else float(device.unwell is not None)


def _share(percentage: float | None) -> float | None:
    return None if percentage is None else percentage / 100


_COVERAGE = "Attempts that stayed within their memory bound."
_UTILIZATION = "Mean error of predicted utilisation, 0 to 1."
_ALARM = "Whether memory bounds fail more often than promised."
_WIDENED = "Factor by which memory bounds are widened because of it."
_DRIFT_GAUGES: tuple[tuple[str, str, Callable[[KindDrift], float | None]], ...] = (
    ("gpuq_forecast_memory_coverage_ratio", _COVERAGE, lambda d: d.memory_coverage),
    ("gpuq_forecast_memory_error_ratio", "Mean error of predicted memory.", lambda d: d.memory_error),
    ("gpuq_forecast_utilization_error_ratio", _UTILIZATION, lambda d: _share(d.utilization_error_pct)),
    ("gpuq_forecast_slowdown_error_ratio", "Mean error of predicted slowdowns.", lambda d: d.slowdown_error),
    ("gpuq_forecast_slowdown_coverage_ratio", "Slowdowns within their bound.", lambda d: d.slowdown_coverage),
    ("gpuq_forecast_alarm", _ALARM, lambda d: float(d.alarm)),
    ("gpuq_forecast_bound_widened_ratio", _WIDENED, lambda d: d.widened),
)
_DEVICE_GAUGES = (
    ("gpuq_gpu_utilization_ratio", "Utilisation of the device, 0 to 1.", lambda d: _share(d.utilization_pct)),
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


def _gauge(name: str, help_text: str, rows: _Rows, *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(name, help_text, labels=labels), rows)


def _counter(name: str, help_text: str, rows: _Rows, *labels: str) -> Metric:
    return _filled(CounterMetricFamily(name, help_text, labels=labels), rows)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, rows: _Rows) -> Metric:
    for values, number in rows.items():
        if number is not None:
            family.add_metric(values, number)
    return family


def _known(name: str, help_text: str, number: float | None) -> list[Metric]:
    """A gauge without labels; nothing if the number is not known."""
    return [] if number is None else [_gauge(name, help_text, {(): number})]
