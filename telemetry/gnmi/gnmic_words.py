"""The keys of gnmic's configuration: which of them mburst uses, and which it knows and does not use.

From gnmic's user guide (targets, subscriptions, target discovery, global flags, configuration file) and its types of
targets, subscriptions and flags, as of 2026. An unused key has a remark if its absence can be noticed.
"""

from __future__ import annotations

import re

# Keys that a target may have itself, or take from the top of the file.
SHARED = (
    "username", "password", "token", "auth-scheme", "metadata", "encoding", "insecure", "skip-verify", "tls-ca",
    "tls-cert", "tls-key", "tls-server-name", "timeout", "retry", "gzip",
)  # fmt: skip
GLOBALS = (*SHARED, "port", "address", "targets-file", "max-msg-size")
TOP = (*GLOBALS, "targets", "subscriptions", "loader", "mburst", "otlp")

_TLS = "gRPC agrees on TLS 1.2 or 1.3 with the target"
_DIRECT = "mburst connects directly"
_TUNNEL = "targets that dial out through a tunnel are not collected"
_SHARED_UNUSED = {
    "tls-min-version": _TLS, "tls-max-version": _TLS, "tls-version": _TLS, "cipher-suites": _TLS, "log-tls-secret": "",
}  # fmt: skip
TOP_UNUSED = {
    **_SHARED_UNUSED,
    **dict.fromkeys((
        "outputs", "inputs", "processors", "clustering", "cluster-name", "instance-name", "gnmi-server", "api-server",
        "api", "actions", "plugins", "config", "debug", "enable-pprof", "pprof-addr", "no-prefix", "format", "log",
        "log-file", "log-format", "log-max-size", "log-max-backups", "log-compress",
        "prometheus-address", "print-request", "target-buffer-size", "proto-file", "proto-dir", "proto-files",
        "proto-dirs", "registered-extensions", "request-extensions", "file", "dir", "exclude", "calculate-latency",
        "plugin-processors-path", "buffer-size", "event-processors",
    ), ""),
    "proxy-from-env": _DIRECT,
    "tunnel-server": _TUNNEL,
    "use-tunnel-server": _TUNNEL,
}  # fmt: skip
# Options of gnmic's other commands, and those of `gnmic subscribe` that have no meaning here.
_OTHER_COMMANDS = re.compile(
    r"(get|set|getset|get-set|capabilities|cap|path|prompt|listen|generate|diff|tunnel-server|processor|tree|upgrade|"
    r"version|proxy|collector|collect)-.+|subscribe-(quiet|output|watch-config|backoff|lock-retry|depth)"
)

TARGET = (*SHARED, "retry-timer", "name", "address", "subscriptions", "tags", "grpc-keepalive")
TARGET_UNUSED = {
    **_SHARED_UNUSED,
    **dict.fromkeys(("outputs", "event-tags", "event-processors", "buffer-size", "proto-files", "proto-dirs",
                     "tcp-keepalive"), ""),
    "proxy": _DIRECT,
    "tunnel-target-type": _TUNNEL,
}  # fmt: skip
_GRPC = re.compile(r"grpc-.+")  # sizes of buffers and windows
KEEPALIVE = ("time", "timeout", "permit-without-stream")

STREAM = ("paths", "path", "stream-mode", "sample-interval", "heartbeat-interval", "suppress-redundant")
SUBSCRIPTION = (
    *STREAM, "name", "prefix", "target", "set-target", "mode", "encoding", "qos", "updates-only", "models",
    "stream-subscriptions", "history",
)  # fmt: skip
SUBSCRIPTION_UNUSED = {"outputs": "", "event-tags": "", "depth": "the answer is as deep as the target makes it"}
# Options of `gnmic subscribe` at the top of the file → the key of a subscription.
SUBSCRIBE = {
    "subscribe-path": "paths", "subscribe-prefix": "prefix", "subscribe-target": "target",
    "subscribe-set-target": "set-target", "subscribe-mode": "mode", "subscribe-stream-mode": "stream-mode",
    "subscribe-stream_mode": "stream-mode", "subscribe-sample-interval": "sample-interval",
    "subscribe-heartbeat-interval": "heartbeat-interval", "subscribe-suppress-redundant": "suppress-redundant",
    "subscribe-updates-only": "updates-only", "subscribe-qos": "qos", "subscribe-model": "models",
    "subscribe-history-snapshot": "history", "subscribe-history-start": "history", "subscribe-history-end": "history",
}  # fmt: skip
# … of which these also apply to subscriptions that lack them.
INHERITED = ("mode", "stream-mode", "sample-interval", "heartbeat-interval", "qos", "history")
CHOSEN = "subscribe-name"

LOADER = ("type", "path", "interval")
LOADER_UNUSED = dict.fromkeys(
    ("start-delay", "enable-metrics", "on-add", "on-delete", "vars", "vars-file", "debug", "template"), ""
)


def is_unused_at_top(word: str) -> bool:
    """Whether gnmic knows WORD at the top of the file, and mburst does not use it."""
    return word in TOP_UNUSED or word.startswith(".") or bool(_OTHER_COMMANDS.fullmatch(word))


def is_unused_of_target(word: str) -> bool:
    """Whether gnmic knows WORD in a target, and mburst does not use it."""
    return word in TARGET_UNUSED or (word not in TARGET and bool(_GRPC.fullmatch(word)))
