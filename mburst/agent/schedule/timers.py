"""Timers that call `mburst schedule --once`: units of systemd, lines of cron, a CronJob of Kubernetes.

The command is idempotent: an extra call does nothing, and the next call makes up for a missed one.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import subprocess
import unicodedata
from pathlib import Path

from ... import files
from ...errors import MburstError, UsageError
from ...process import privileges, python
from ...units import NS_PER_MINUTE, NS_PER_S
from ..config import RunConfig, ScheduledReport
from ..delivery import folders_of
from .reports import LENGTH_NS

SPREAD_S = 120  # RandomizedDelaySec, so that many hosts do not begin in the same second
_WHEN = {
    "hour": "*-*-* *:{m:02}:{s:02} UTC",
    "day": "*-*-* {h:02}:{m:02}:{s:02} UTC",
    "week": "{day} *-*-* {h:02}:{m:02}:{s:02} UTC",
}
# For a system service that reads a store, notes in it which files it verified, writes pages, and connects to servers
# (systemd.exec(5)).
_CONFINED = """UMask=0027
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={paths}
PrivateTmp=yes
PrivateDevices=yes
PrivateMounts=yes
ProtectProc=invisible
ProcSubset=pid
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectClock=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=capset
SystemCallErrorNumber=EPERM
"""
BOOTED = Path("/run/systemd/system")  # a folder where systemd runs (sd_booted(3))
INSTALLED = (
    "the units are written, and --remove removes them; without systemd, use --print cron or --print kubernetes, or let "
    "`mburst run` keep the schedule"
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def command(config: RunConfig, report: ScheduledReport) -> list[str]:
    """Returns the command that runs when a report is due."""
    return python.command("mburst", "schedule", "--once", report.name, "--", str(config.path.resolve()))


def _delay(report: ScheduledReport, step_ns: int) -> dict[str, int | str]:
    """Returns the time in a period at which the report is due, as day, hours, minutes and seconds of a calendar with
    steps of STEP_NS. It is rounded up, perhaps to the begin of the next period: a call before the report is due finds
    the one of the period before."""
    due_ns = -(-report.delay_ns // step_ns) * step_ns % LENGTH_NS[report.every]
    minutes, seconds = divmod(due_ns // NS_PER_S, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return {"day": _DAYS[days], "h": hours, "m": minutes, "s": seconds}


def calendar(report: ScheduledReport) -> str:
    """Returns OnCalendar of systemd.time(7)."""
    return _WHEN[report.every].format(**_delay(report, NS_PER_S))


def units(config: RunConfig, system: bool) -> dict[str, str]:
    """Returns unit files by name: a service and a timer for each report."""
    made = {}
    for report in config.reports:
        called = " ".join(_quoted(word) for word in command(config, report))
        about = f"Microburst report {report.name}"
        made[f"mburst-report-{report.name}.service"] = (
            f"[Unit]\nDescription={about}\nAfter=network-online.target\nWants=network-online.target\n\n"
            f"[Service]\nType=oneshot\nWorkingDirectory={_bare(str(Path.cwd()))}\n"
            f"ExecStart={called}\n"
            "Environment=PYTHONSAFEPATH=1\nNice=10\nIOSchedulingClass=idle\n"
            + (_confined(config, report) if system else "UMask=0027\nNoNewPrivileges=yes\n")
        )
        made[f"mburst-report-{report.name}.timer"] = (
            f"[Unit]\nDescription={about}, every {report.every}\n\n[Timer]\nOnCalendar={calendar(report)}\n"
            f"Persistent=true\nRandomizedDelaySec={SPREAD_S}\n\n[Install]\nWantedBy=timers.target\n"
        )
    return made


def _confined(config: RunConfig, report: ScheduledReport) -> str:
    """Returns the user and the restrictions of the service: it runs as the owner of the store, and may write only to
    the store, to the folder of the reports and to folders of deliveries."""
    paths = dict.fromkeys([files.real(report.place), *folders(config, report)])
    return f"User={owner_of(report.place)}\n" + _CONFINED.format(
        paths=" ".join("-" + _escaped(_path(path)) for path in paths)
    )


def folders(config: RunConfig, report: ScheduledReport) -> list[Path]:
    """Returns the folders of this machine to which a report is written or delivered, except those with ${NAME}, which
    are known only on delivery."""
    delivered = [path for name in report.deliver for path in folders_of(config.deliveries[name])]
    paths = [report.output, *(path for path in delivered if "${" not in str(path))]
    return list(dict.fromkeys(map(files.real, paths)))


def missing(config: RunConfig) -> dict[Path, str]:
    """Returns the folders that do not exist yet, with the user that writes into them: a system service may write into a
    folder, but cannot create it."""
    return {
        folder: owner_of(report.place)
        for report in config.reports
        for folder in folders(config, report)
        if not folder.exists()
    }


def make_folders(config: RunConfig) -> dict[Path, str]:
    """Create the folders as the user that writes into them, and return those that could not be created. Folders of
    deliveries, which everybody may read, are the first, so that everybody can pass what is made above them."""
    outputs = {files.real(report.output) for report in config.reports}
    named = [(folder in outputs, folder, report) for report in config.reports for folder in folders(config, report)]
    for is_own, folder, report in sorted(named, key=lambda entry: entry[0]):
        owner = privileges.owner_of(report.place)
        who = {"user": owner.uid, "group": owner.gid, "extra_groups": []} if os.geteuid() == 0 else {}
        call = ["mkdir", "--parents", f"--mode={'0750' if is_own else '0755'}", "--", str(folder)]
        umask = 0o027 if is_own else 0o022
        subprocess.run(call, check=False, capture_output=True, umask=umask, **who)  # type: ignore[call-overload]
    return missing(config)


def _path(path: Path) -> str:
    """Returns a path for a list of paths (systemd.syntax(7): words in quotes, C escapes)."""
    text = str(path)
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def owner_of(store: Path) -> str:
    """Returns the name of the present or future owner of a store, or the number of an owner without a name."""
    uid = privileges.owner_of(store).uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _quoted(word: str) -> str:
    """Returns a word for ExecStart (systemd.service(5), "Command lines")."""
    text = _escaped(word).replace("$", "$$")
    return text if re.fullmatch(r"[\w@%+=:,./$-]+", text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _escaped(text: str) -> str:
    """Returns TEXT for a unit, where % begins a specifier."""
    return _one_line(text).replace("%", "%%")


def _bare(path: str) -> str:
    """Returns a path that is a whole value, which cannot be quoted. Raises UsageError."""
    if path.endswith("\\") or path != path.rstrip():
        raise UsageError(f"{path!r}: systemd cannot represent the name of this folder", "run it from another folder")
    return _escaped(path)


def _one_line(text: str) -> str:
    """Returns TEXT if it is safe in one line of a unit or a crontab. Raises UsageError for control characters: a
    folder's name could otherwise add lines."""
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise UsageError(
            f"{text!r}: a name with control characters, or that is not UTF-8, cannot be scheduled",
            "rename the file or folder, or run it from another folder",
        )
    return text


def cron(config: RunConfig) -> str:
    """Returns lines for a crontab. They run every hour, because cron uses the machine's time zone and reports use UTC;
    a report that is not due is skipped."""
    owners = ", ".join(sorted({owner_of(report.place) for report in config.reports}))
    lines = [
        "# Reports of mburst. Called every hour: what is not due yet, or done, costs a moment.",
        f"# For the crontab of who owns the store: crontab -u {owners} -e",
    ]
    for report in config.reports:
        minute = _delay(report, NS_PER_MINUTE)["m"]
        called = _one_line(shlex.join(["cd", str(Path.cwd())]) + " && " + shlex.join(command(config, report)))
        lines.append(f"{minute} * * * * {called.replace('%', chr(92) + '%')}")
    return "\n".join(lines) + "\n"


def kubernetes(config: RunConfig) -> str:
    """Returns CronJobs (batch/v1), one for each report. The configuration is in the ConfigMap `mburst`, secrets are in
    the Secret `mburst`, and store and reports are on the claim `mburst`. Paths in the file must be below its mount."""
    documents = []
    for report in config.reports:
        at = _delay(report, NS_PER_MINUTE)
        day = (_DAYS.index(str(at["day"])) + 1) % 7 if report.every == "week" else "*"  # Sunday is 0
        hour = "*" if report.every == "hour" else at["h"]
        documents.append(
            _CRON_JOB.format(
                name=re.sub(r"[^a-z0-9-]+", "-", f"mburst-report-{report.name}".lower())[:52].strip("-"),
                minute=at["m"],
                hour=hour,
                day=day,
                report=report.name,
                file=json.dumps(f"/etc/mburst/{config.path.name}"),
            )
        )
    return "---\n".join(documents)


_CRON_JOB = """apiVersion: batch/v1
kind: CronJob
metadata:
  name: {name}
spec:
  schedule: "{minute} {hour} * * {day}"
  timeZone: Etc/UTC
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 3600
  jobTemplate:
    spec:
      backoffLimit: 2
      template:
        spec:
          restartPolicy: Never
          securityContext:
            seccompProfile: {{type: RuntimeDefault}}
          containers:
            - name: mburst
              image: mburst  # an image of yours that has mburst
              command: ["mburst", "schedule", "--once", "{report}", "--", {file}]
              securityContext:
                allowPrivilegeEscalation: false
                readOnlyRootFilesystem: true
                capabilities: {{drop: [ALL]}}
              envFrom:
                - secretRef: {{name: mburst, optional: true}}
              volumeMounts:
                - {{name: configuration, mountPath: /etc/mburst}}
                - {{name: data, mountPath: /var/lib/mburst}}
                - {{name: temporary, mountPath: /tmp}}
          volumes:
            - {{name: temporary, emptyDir: {{}}}}
            - {{name: configuration, configMap: {{name: mburst}}}}
            - {{name: data, persistentVolumeClaim: {{claimName: mburst}}}}
"""


# --- systemd ----------------------------------------------------------------------------------------------------------


def unit_folder(system: bool) -> Path:
    """Returns the folder for unit files of an administrator or of a user (systemd.unit(5))."""
    if system:
        return Path("/etc/systemd/system")
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "systemd" / "user"


def install(made: dict[str, str], system: bool) -> list[Path]:
    """Write the units MADE, and start the timers. Raises MburstError if either fails."""
    folder = unit_folder(system)
    for name, text in made.items():
        hint = "--user installs for you alone, --print shows the units"
        mode = files.PUBLIC if system else files.GROUP  # a user's own folders are not published
        files.write(folder / name, text, f"the unit {name}", hint, mode)
    _systemctl(system, "daemon-reload")
    _systemctl(system, "enable", "--now", *(name for name in made if name.endswith(".timer")))
    return [folder / name for name in made]


def remove(config: RunConfig, system: bool) -> list[Path]:
    """Stop the timers of the reports and remove their units. Returns the units that existed. If systemd does not run on
    this machine, there is nothing to stop. Raises MburstError, which names the units that are left."""
    folder = unit_folder(system)
    there = [folder / name for name in units(config, system) if os.path.lexists(folder / name)]
    if not there:
        return []
    timers = [path.name for path in there if path.suffix == ".timer"]
    runs = BOOTED.is_dir()
    if runs and timers:
        _systemctl(system, "disable", "--now", *timers, state=f"the units are left in {folder}")
    wanted = [folder / "timers.target.wants" / name for name in timers]
    left: dict[Path, str | None] = {}
    for path in (*there, *(link for link in wanted if link.is_symlink())):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            left[path] = error.strerror
    if left:
        raise MburstError(
            f"{', '.join(map(str, left))}: cannot remove the units: {next(iter(left.values()))}",
            ("the timers are stopped; " if runs else "") + "run it as the user that installed it",
        )
    if runs:
        _systemctl(system, "daemon-reload", state="the timers are stopped, and the units are removed")
    return there


def _systemctl(system: bool, *words: str, state: str = INSTALLED) -> None:
    """Call systemctl. Raises MburstError, which says in which STATE the units then are."""
    call = ["systemctl", *([] if system else ["--user"]), *words]
    try:
        done = subprocess.run(call, capture_output=True, text=True)
    except FileNotFoundError:
        raise MburstError("systemctl was not found", state) from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise MburstError(f"{' '.join(call[:3])}: {reason}", state)
