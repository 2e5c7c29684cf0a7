"""What can be set, each with its default and its sentence, in one place.

The records below are the whole list: the loader (``loading``), ``config show`` and
docs/settings.md are made from them. A field whose name ends in ``_s`` is a duration: its key in
the file is the name without ``_s``, and its value a number of seconds or text such as "10m".
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlsplit

from middlewatch.model.gates import Mode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobScope
from middlewatch.reconciliation.deadlines import WatchdogConfig, check_deadlines
from middlewatch.wiring.transport import about_gateway, about_transport

V = TypeVar("V")
PORT = 8642
_STORE_URL = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?\Z")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}\Z")
_MATCHER = r'[A-Za-z_][A-Za-z0-9_.]*(?:=~|!~|!=|=)"(?:[^"\\\x00-\x1f]|\\["\\])*"'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*\Z")
_WATCHER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]{1,150}\Z")
ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def _key(default: V, text: str, low: float = 0.0, high: float = 1e9) -> V:
    return field(default=default, metadata={"text": text, "low": low, "high": high})


class SocketAccess(StrEnum):
    NONE = "none"
    READ = "read"


class LogFormat(StrEnum):
    AUTO = "auto"
    HUMAN = "human"
    JSON = "json"
    LOGFMT = "logfmt"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ScanEngine(StrEnum):
    AUTO = "auto"
    HYPERSCAN = "hyperscan"
    RE2 = "re2"


class Transport(StrEnum):
    LOCAL = "local"
    SSH = "ssh"
    SLURMRESTD = "slurmrestd"


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    environment: str = _key(
        "prod", "the site's name for this cluster; jobs name it in their opt-in"
    )
    mode: Mode = _key(
        Mode.MONITOR, "`monitor` writes down what it would do; `action` may change jobs"
    )
    acknowledge_scheduler_actions: bool = _key(
        False, "must be true before any command that changes a job is issued"
    )
    partitions: tuple[str, ...] = _key(
        (), "partitions whose jobs may be changed; none by default, `*` means all"
    )
    cluster_name: str = _key(
        "", "Slurm's ClusterName that we own; empty: the one seen at the first start, then kept"
    )


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    transport: Transport = _key(
        Transport.LOCAL, "how Slurm is reached: `local` (its commands here), `ssh` or `slurmrestd`"
    )
    scope: JobScope = _key(
        JobScope.AUTO,
        "whose jobs: `all`, our user's `own`, or `auto`: all where Slurm grants it (or shows it, in "
        "monitor mode), else own",
    )
    bin_dir: str = _key("", "where Slurm's commands lie; empty: on PATH")
    conf: str = _key("", "SLURM_CONF for those commands; empty: as the environment has it")
    look_deadline_s: float = _key(10.0, "a command that only looks is given up after this", 0.5)
    command_deadline_s: float = _key(
        20.0, "a command that changes something is killed after this", 1.0
    )
    ssh_host: str = _key("", "the machine with Slurm's commands and our gate")
    ssh_port: int = _key(22, "its port", 1, 65535)
    ssh_user: str = _key("", "whose authorized_keys has the gate; empty: our own name")
    ssh_key: str = _key("", "file with the private key; empty: the agent, or ssh_config, decides")
    ssh_agent: bool = _key(False, "keys may come from ssh-agent (SSH_AUTH_SOCK)")
    ssh_known_hosts: str = _key("", "file with the pinned keys of the host and of those on the way")
    ssh_jump: tuple[str, ...] = _key((), "hosts on the way, as [user@]host[:port], in their order")
    ssh_config: str = _key("", "a site's own ssh_config for what is not set here; empty: none")
    ssh_gate: str = _key("middlewatch-gate", "the gate's program there, if no key forces it")
    ssh_connect_timeout_s: float = _key(10.0, "a connection that takes longer is given up", 1.0)
    rest_url: str = _key("", "of slurmrestd: http://host:port, https://host:port or unix:/path")
    rest_user: str = _key("", "the user of its token")
    rest_token_file: str = _key("", "file with the token (JWT); read at each call")
    rest_begin_delay_s: float = _key(
        121.0, "cred_expire of slurm.conf and a second: only 26.05's slurmrestd tells it", 1.0
    )
    rest_message_timeout_s: float = _key(10.0, "MessageTimeout of slurm.conf, likewise", 1.0)


@dataclass(frozen=True, slots=True)
class StateSettings:
    directory: str = _key(
        "",
        "database, socket, journal and tokens; empty: /var/lib/middlewatch for root, else "
        "$XDG_STATE_HOME/middlewatch",
    )


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    bind: str = _key("127.0.0.1", "address to serve on; any but a loopback one needs TLS")
    port: int = _key(PORT, "port to serve on; 0 takes a free one", 0, 65535)
    socket: str = _key("", "Unix socket for local clients; empty: api.sock in the state directory")
    socket_others: SocketAccess = _key(
        SocketAccess.NONE, "what users but root and ours may do over the socket: none or read"
    )
    tls_cert: str = _key("", "PEM file with the certificate chain")
    tls_key: str = _key("", "PEM file with its key")
    tls_terminated_elsewhere: bool = _key(False, "a proxy in front of us speaks TLS")
    insecure: bool = _key(False, "no authentication at all: demos on a loopback address only")
    grpc_port: int = _key(0, "port for gRPC on the same address; 0: no gRPC", 0, 65535)


@dataclass(frozen=True, slots=True)
class WatcherSettings:
    interval_s: float = _key(
        1.0, "between two rounds over the logs, with one listing of the cluster at most", 0.05
    )
    listing_shortest_s: float = _key(
        1.0, "between two listings while an opted-in job runs or a restart is under way", 0.05
    )
    listing_longest_s: float = _key(
        45.0, "between two listings while nothing is live; below policy.seen_after_end", 0.05, 600.0
    )
    hint_file: str = _key(
        "",
        "touched by whoever saw a job end: then the next round lists; empty: hint in the state"
        " directory",
    )
    name: str = _key("", "of a further watcher on the same state directory; empty: the first one")
    lease_s: float = _key(
        30.0, "how long the jobs of a watcher that was lost are watched by nobody, at most", 2.0
    )
    patterns: str = _key("", "folder with the site's own pattern files; empty: none")
    engine: ScanEngine = _key(
        ScanEngine.AUTO,
        "what searches logs: `auto` (Hyperscan where it is installed, else RE2), hyperscan or re2",
    )


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    url: str = _key(
        "", "Prometheus or VictoriaMetrics, such as `http://prometheus:9090`; empty: no metrics"
    )
    every_s: float = _key(
        30.0, "how often one silent job is looked at, and the step counters of all", 1.0
    )
    window_s: float = _key(
        60.0, "each value is taken over this time; it must hold at least two scrapes", 2.0, 3600.0
    )
    timeout_s: float = _key(2.0, "an answer that takes longer is given up", 0.1, 60.0)
    node_label: str = _key(
        "", "label with the node's name; empty: `Hostname` for DCGM, `instance` for node_exporter"
    )
    job_label: str = _key("job_id", "label with Slurm's job id in the step counter")
    tenant: str = _key("", "value of the header that names the tenant; empty: none is sent")
    tenant_header: str = _key("X-Scope-OrgID", "name of that header")
    token_file: str = _key("", "file with a bearer token")
    username: str = _key("", "user name, where the server wants basic authentication")
    password_file: str = _key("", "file with that user's password")
    ca_file: str = _key("", "PEM file of authorities to trust; empty: the machine's")
    gpu_power_query: str = _key(
        "", "PromQL of your own (docs/metrics.md); empty: DCGM's, `none`: not asked"
    )
    gpu_tensor_query: str = _key("", "the same for tensor activity")
    gpu_sm_query: str = _key("", "the same for the activity of multiprocessors")
    cpu_time_query: str = _key("", "the same for processor time; empty: node_exporter's")
    disk_io_query: str = _key("", "the same for disk traffic")
    network_io_query: str = _key("", "the same for network traffic")
    step_query: str = _key("", "the same for step counters; empty: `middlewatch_step`")


class LogsSource(StrEnum):
    FILES = "files"
    VICTORIALOGS = "victorialogs"
    LOKI = "loki"


@dataclass(frozen=True, slots=True)
class LogsSettings:
    source: LogsSource = _key(
        LogsSource.FILES,
        "where jobs' output is read: `files` (their own), `victorialogs` or `loki`",
    )
    url: str = _key("", "the log store, without a path: `https://logs.example.org:9428`")
    job_label: str = _key("job_id", "label that holds the job's id as squeue shows it")
    node_label: str = _key("node", "label that holds the node which wrote the line")
    file_label: str = _key("filename", "label that holds the file which the line stood in")
    job_label_in_stream: bool = _key(
        True, "the job's label is one of the stream's; false: a field of the line (slower)"
    )
    match: str = _key("", 'more label matchers for every question, as `cluster="a",env="b"`')
    tenant: str = _key("", "VictoriaLogs: AccountID:ProjectID; Loki: X-Scope-OrgID; empty: none")
    token_file: str = _key("", "file with a bearer token for the store, read at each question")
    username: str = _key("", "user for basic authentication, where there is no token")
    password_file: str = _key("", "file with that user's password")
    ca_file: str = _key("", "PEM file of authorities to trust for `url`; empty: the machine's")
    timeout_s: float = _key(5.0, "an answer that takes longer is given up", 0.1, 60.0)
    delay_s: float = _key(
        3.0, "how long lines may take to be found in the store; waited for at a job's end", 0.0
    )


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    interval_s: float = _key(1.0, "between two rounds without a hint", 0.05)


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    interval_s: float = _key(1.0, "between two rounds without a hint", 0.05)
    again_s: float = _key(0.25, "between two looks while something of ours is under way", 0.05)
    lease_s: float = _key(60.0, "how long a silent controller stays the leader", 2.0)
    max_hold_s: float = _key(300.0, "release-by of a requeue-hold, from when it is taken", 1.0)
    drain_limit_s: float = _key(
        60.0, "how long a clean stop waits until nothing of ours holds a job"
    )
    gateway: str = _key(
        "", "of a controller elsewhere: the gateway it asks, https://host:port; empty: the store"
    )
    token_file: str = _key("", "file with its token for that gateway (scope controller)")
    ca_file: str = _key("", "PEM file of authorities to trust for it; empty: the machine's")


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What was decided and done, and the trail, is kept for ever."""

    evidence_s: float = _key(
        30 * 86_400.0, "signals, progress and positions in logs, after a job's last end", 86_400.0
    )
    attempts_s: float = _key(
        90 * 86_400.0, "attempts that nothing was advised for, after a job's last end", 86_400.0
    )


@dataclass(frozen=True, slots=True)
class WatchdogSettings:
    enabled: bool = _key(True, "start the watchdog beside `up`")
    mode: Mode = _key(
        Mode.ACTION,
        "its own mode: `action` undoes what our journal says is ours and stands too long, "
        "`monitor` only says so",
    )
    interval_s: float = _key(5.0, "between two rounds", 0.1)
    max_hold_s: float = _key(900.0, "no hold of ours may stand longer than this", 1.0)
    site_max_hold_s: float = _key(
        3600.0, "what the site tolerates at all: max_hold lies below", 1.0
    )
    max_fence_s: float = _key(60.0, "longest that a Requeue=0 of ours may stand", 1.0)
    heartbeat_stale_s: float = _key(
        120.0, "without a sign of life for this long the watchdog counts as dead", 1.0
    )
    up_grace_s: float = _key(30.0, "without a sign of life for this long `up` counts as stuck", 1.0)
    spacing_s: float = _key(1.0, "between two overdue jobs that are let go")
    ssh_key: str = _key(
        "", "its own key for the SSH gate, so that the gate can allow it less; empty: slurm.ssh_key"
    )
    per_tick: int = _key(4, "overdue jobs that are let go in one round at most", 1, 1000)


@dataclass(frozen=True, slots=True)
class LogSettings:
    format: LogFormat = _key(
        LogFormat.AUTO, "`auto`: for people on a terminal, JSON elsewhere; or human, json, logfmt"
    )
    level: LogLevel = _key(LogLevel.INFO, "debug, info, warning or error")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    url: str = _key("", "where reading commands ask; empty: the Unix socket, then the bind address")
    token_file: str = _key(
        "", "file with the token for `url`; empty: `token` in the state directory"
    )
    ca_file: str = _key("", "PEM file of authorities to trust for `url`; empty: the machine's")
    timeout_s: float = _key(10.0, "an answer that takes longer is given up", 0.1)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that was set, as the services are given it."""

    deployment: DeploymentSettings = DeploymentSettings()
    slurm: SlurmSettings = SlurmSettings()
    state: StateSettings = StateSettings()
    gateway: GatewaySettings = GatewaySettings()
    policy: Policy = Policy()
    watcher: WatcherSettings = WatcherSettings()
    logs: LogsSettings = LogsSettings()
    metrics: MetricsSettings = MetricsSettings()
    manager: ManagerSettings = ManagerSettings()
    controller: ControllerSettings = ControllerSettings()
    retention: RetentionSettings = RetentionSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
    log: LogSettings = LogSettings()
    client: ClientSettings = ClientSettings()


POLICY_TEXTS: Mapping[str, str] = {
    "attempts_without_checkpoint": "our restarts in a row without a new complete checkpoint, then stop",
    "restarts_without_progress": "our restarts in a row that end alike before the lost step, then stop",
    "max_restarts": "our restarts of one job, then stop",
    "restart_on_time_limit": "restart what met its time limit",
    "restart_on_preemption": "restart what was pre-empted",
    "restart_after_person_cancelled": "restart what a person cancelled",
    "restart_on_application_failure": "restart what failed by its own fault",
    "act_on_silence": "let silence alone, without another witness, end a running attempt",
    "act_on_silence_partitions": "the same, for jobs in these partitions alone",
    "act_on_slow": "move a slow job off a node that is seen to slow it, if the job says so too",
    "act_on_numbers": "restart a job whose loss is no number any more",
    "seen_after_end_s": "an attempt that had ended longer ago when first seen is left alone",
    "max_exclusions": "nodes that we exclude for one job at most",
    "min_spare_nodes": "usable nodes that a partition must keep beyond what the job needs",
    "advice_age_limit_s": "a restart that did not come about in this time is given up",
    "drain_wait_s": "how long a successor waits for the end of the log to be read",
    "grace_floor_s": "shortest time without progress, after a failure line, that counts",
    "silence_floor_s": "shortest silence between steps that counts as a hang",
    "launch_limit_s": "how long a running job may print nothing before that counts; alarm at a third",
    "first_step_limit_s": "silence before the first step that counts; alarm at a third",
    "compile_limit_s": "the same while the job says that it compiles; alarm at a fifth",
    "evaluation_limit_s": "silence in an evaluation, until it has shown its own; alarm at a twelfth",
    "checkpoint_limit_s": "silence in a save, until the job has shown its own; alarm at a tenth",
    "shutdown_limit_s": "silence behind the last step that counts; alarm at a tenth or a quarter",
    "unseen_limit_s": "how long a running job's output may be unreadable before that is an issue",
    "parent_settles_s": "when a job that others wait for, and that failed, counts as failed for good",
    "signal_cap": "signals stored for each pattern and attempt; more are counted",
}


@dataclass(frozen=True, slots=True)
class KeySpec:
    """One thing that can be set. ``attribute`` is the field, ``key`` its name for people."""

    section: str
    key: str
    attribute: str
    kind: type
    """bool, int, float (a duration), str, tuple (of str), or a StrEnum."""
    default: Any
    text: str
    low: float
    high: float

    @property
    def duration(self) -> bool:
        return self.attribute.endswith("_s")

    @property
    def variable(self) -> str:
        return f"MIDDLEWATCH_{self.section}_{self.key}".upper()


def specs() -> Iterator[KeySpec]:
    """All keys, in the order of the records."""
    sections = typing.get_type_hints(Settings)
    for section, record in sections.items():
        hints = typing.get_type_hints(record)
        for item in dataclasses.fields(record):
            if record is Policy and item.name == "version":
                continue
            hint = hints[item.name]
            kind = tuple if typing.get_origin(hint) is not None else hint
            yield KeySpec(
                section=section,
                key=item.name.removesuffix("_s"),
                attribute=item.name,
                kind=kind,
                default=item.default,
                text=item.metadata.get("text") or POLICY_TEXTS.get(item.name, ""),
                low=item.metadata.get("low", 0.0),
                high=item.metadata.get("high", 1e9),
            )


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def contradictions(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Combinations that cannot be meant: (section, key, sentence)."""
    gateway, deployment = settings.gateway, settings.deployment
    if not ENVIRONMENT.match(deployment.environment):
        yield (
            "deployment",
            "environment",
            f"{deployment.environment[:80]!r} is no name (letters, digits, . - _, at most 63)",
        )
    if bool(gateway.tls_cert) != bool(gateway.tls_key):
        missing = "tls_key" if gateway.tls_cert else "tls_cert"
        yield "gateway", missing, "tls_cert and tls_key go together; one is missing"
    open_to_all = not is_loopback(gateway.bind)
    protected = bool(gateway.tls_cert) or gateway.tls_terminated_elsewhere
    if open_to_all and not protected:
        needed = "tls_cert and tls_key, or tls_terminated_elsewhere = true where a proxy does it"
        yield "gateway", "bind", f"{gateway.bind} can be reached from elsewhere: set {needed}"
    if gateway.insecure and open_to_all:
        yield "gateway", "insecure", f"refused on {gateway.bind}: only a loopback address"
    if gateway.insecure and deployment.mode is not Mode.MONITOR:
        yield "gateway", "insecure", 'refused with mode "action": only monitor'
    yield from about_transport(settings)
    yield from _about_listings(settings)
    if settings.metrics.url:
        yield from _about_metrics(settings.metrics)
    if settings.logs.source is not LogsSource.FILES:
        yield from _about_logs(settings.logs)
    policy = settings.policy
    if policy.attempts_without_checkpoint < 1:
        yield "policy", "attempts_without_checkpoint", "at least 1"
    if policy.restarts_without_progress < 1:
        yield "policy", "restarts_without_progress", "at least 1"
    if policy.signal_cap < 1:
        yield "policy", "signal_cap", "at least 1"
    if settings.controller.lease_s <= settings.slurm.command_deadline_s + 1.0:
        yield "controller", "lease", "must be longer than slurm.command_deadline by over a second"
    yield from about_gateway(settings.controller)
    watcher = settings.watcher
    if watcher.name and not _WATCHER.match(watcher.name):
        yield "watcher", "name", "letters, digits and `-`, at most 32, beginning with a letter"
    if watcher.lease_s < 2 * settings.slurm.look_deadline_s:
        yield "watcher", "lease", "must be at least twice slurm.look_deadline"
    if settings.retention.evidence_s > settings.retention.attempts_s:
        yield "retention", "evidence", "must not be longer than retention.attempts"
    if settings.controller.max_hold_s > settings.watchdog.max_hold_s:
        yield "controller", "max_hold", "must not be longer than watchdog.max_hold"
    if settings.watchdog.enabled:
        for problem in check_deadlines(watchdog_config(settings), None):
            name = problem.partition(" ")[0].removesuffix("_s")
            known = {item.name.removesuffix("_s") for item in dataclasses.fields(WatchdogSettings)}
            yield "watchdog", name if name in known else "max_hold", problem


def _about_listings(settings: Settings) -> Iterator[tuple[str, str, str]]:
    given = settings.watcher
    if given.listing_longest_s < given.listing_shortest_s:
        yield "watcher", "listing_longest", "must not be shorter than watcher.listing_shortest"


def _about_metrics(given: MetricsSettings) -> Iterator[tuple[str, str, str]]:
    yield from _about_access("metrics", given)
    if given.tenant and not _HEADER_VALUE.match(given.tenant):
        yield "metrics", "tenant", f"{given.tenant[:80]!r} cannot stand in a header"
    if given.tenant and not _HEADER.match(given.tenant_header):
        yield "metrics", "tenant_header", f"{given.tenant_header[:80]!r} is no name of a header"


def _about_access(
    section: str, given: MetricsSettings | LogsSettings
) -> Iterator[tuple[str, str, str]]:
    """What both kinds of servers want of their address and of the way in."""
    if not _STORE_URL.match(given.url):
        yield section, "url", f"{_told(given.url)} is no http:// or https:// address of a server"
    elif given.url.startswith("http://") and (given.token_file or given.username):
        host = urlsplit(given.url).hostname or ""
        if not is_loopback(host):
            yield section, "url", "a secret would be sent in the clear: use https://"
    if given.token_file and given.username:
        yield section, "username", "a token and a user are two ways in; give one"
    if bool(given.username) != bool(given.password_file):
        missing = "password_file" if given.username else "username"
        yield section, missing, "username and password_file go together; one is missing"


def _about_logs(given: LogsSettings) -> Iterator[tuple[str, str, str]]:
    yield from _about_access("logs", given)
    if given.tenant and tenant_headers(given) == ():
        yield "logs", "tenant", f"{given.tenant[:80]!r} is none: two numbers as 12:34, or an org id"
    for key in ("job_label", "node_label", "file_label"):
        if not _LABEL.match(getattr(given, key)):
            yield "logs", key, f"{getattr(given, key)[:80]!r} is no name of a label"
    if given.match and not _MATCHERS.match(given.match):
        yield "logs", "match", f'{given.match[:80]!r} is no list of matchers as cluster="a"'
    if given.source is LogsSource.LOKI and not given.job_label_in_stream and not given.match:
        needed = 'Loki answers no question without a stream label: give one, as cluster="a"'
        yield "logs", "match", needed


def _told(url: str) -> str:
    """An address as a sentence may show it: without what somebody wrote before an @."""
    return repr(re.sub(r"//[^/@\s]*@", "//…@", url)[:80])


def tenant_headers(given: LogsSettings) -> tuple[tuple[str, str], ...]:
    """The headers that name the tenant; none for an empty one, or one that cannot be."""
    if given.source is LogsSource.VICTORIALOGS:
        found = re.fullmatch(r"(\d{1,10}):(\d{1,10})", given.tenant, re.ASCII)
        return (("AccountID", found[1]), ("ProjectID", found[2])) if found else ()
    if re.fullmatch(r"[A-Za-z0-9!._*'()|-]{1,150}", given.tenant) is None:
        return ()
    return (("X-Scope-OrgID", given.tenant),)


def watchdog_config(settings: Settings) -> WatchdogConfig:
    """The watchdog's numbers as its rule wants them."""
    given = settings.watchdog
    return WatchdogConfig(
        max_hold_s=given.max_hold_s,
        site_max_hold_s=given.site_max_hold_s,
        max_fence_s=given.max_fence_s,
        interval_s=given.interval_s,
        command_deadline_s=settings.slurm.command_deadline_s,
        heartbeat_stale_s=given.heartbeat_stale_s,
        spacing_s=given.spacing_s,
        per_tick=given.per_tick,
    )


def cautions(settings: Settings) -> Iterator[str]:
    """Combinations that are allowed and probably not what was meant, as sentences."""
    deployment = settings.deployment
    if deployment.mode is Mode.ACTION:
        if not deployment.acknowledge_scheduler_actions:
            yield (
                'deployment.mode is "action", but acknowledge_scheduler_actions is false: '
                "no job will be changed"
            )
        if not deployment.partitions:
            yield (
                'deployment.mode is "action", but deployment.partitions is empty: '
                "no job will be changed"
            )
        if not settings.watchdog.enabled or settings.watchdog.mode is Mode.MONITOR:
            yield (
                'deployment.mode is "action" without an acting watchdog: if we die, nobody lets '
                "go what we hold"
            )
    if settings.watcher.listing_longest_s >= settings.policy.seen_after_end_s:
        yield (
            "watcher.listing_longest is not shorter than policy.seen_after_end: a job that begins and "
            "ends between two listings will be left alone"
        )
    if settings.gateway.insecure:
        yield "gateway.insecure: ANYBODY ON THIS MACHINE may read and write everything"
