"""examples/Containerfile and examples/daemonset.yaml: read by the tools that know them, built, and run as a pod is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from chroots import Chroot, missing
from places import ROOT

EXAMPLES = ROOT / "examples"
TOOLS = ROOT / ".venv" / "release" / "bin"
OWN = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
BASE, IMAGE = "localhost/mburst-test-base", "localhost/mburst-test"

# $1: the root of the image, $2: which capabilities the container has. What a pod of the host's network has: an
# interface, a file system that it cannot write to but for its volumes, and no way to more rights.
POD = """
set -e
mount --make-rprivate /
root=$1; capabilities=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"; mount -t sysfs sysfs "$root/sys"; mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"; mount -t tmpfs -o mode=755 tmpfs "$root/var/lib/mburst"
mount -o remount,bind,ro "$root"
ip link set lo up; ip link add eth0 type veth peer name far; ip link set eth0 up; ip link set far up
chroot "$root" setpriv --bounding-set "-all,$capabilities" --inh-caps -all --no-new-privs \
    env PATH="/opt/mburst/bin:$PATH" mburst "$@" &
python3 -c "$SEND" "$root/var/lib/mburst/store/hot/bins"
kill -TERM $!; wait $! || :
chroot "$root" /opt/mburst/bin/mburst sql --csv /var/lib/mburst/store \
    "SELECT any_value(interface), sum(packets) FROM bins WHERE direction = 'in'"
"""
SEND = """
import socket, sys, time
from pathlib import Path
far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
far.bind(("far", 0))
end = time.monotonic() + 60
while time.monotonic() < end and not any(path.stat().st_size > 4000 for path in Path(sys.argv[1]).glob("*.log")):
    for number in range(200):
        far.send(bytes.fromhex("020000000001020000000002080045") + bytes(200))
    time.sleep(0.1)
"""


def tool(name: str, *words: str | Path) -> None:
    """What a tool of the environment of packages says must be nothing bad."""
    if not (TOOLS / name).exists():
        pytest.skip(f"needs {name} (make wheel)")
    done = subprocess.run([TOOLS / name, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_containerfile_has_no_known_mistake() -> None:
    tool("hadolint", EXAMPLES / "Containerfile")


def test_kubernetes_knows_every_key_of_the_daemonset() -> None:
    tool("kubernetes-validate", "--strict", EXAMPLES / "daemonset.yaml")


@pytest.fixture(scope="module")
def image(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of the image, built upon a Debian that no registry has to give."""
    if missing() or not shutil.which("buildah"):
        pytest.skip(missing() or "needs buildah")
    folder = tmp_path_factory.mktemp("image")
    places = ["--root", folder / "images", "--runroot", folder / "run", "--storage-driver", "vfs"]

    def buildah(*words: str | Path) -> str:
        done = subprocess.run(["buildah", *places, *words], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    system = Chroot(folder / "debian", "bookworm")
    made = buildah("from", "scratch")
    buildah("copy", "-q", made, system.root, "/")
    buildah("commit", "-q", made, BASE)
    (folder / "context").mkdir()
    shutil.copy(wheel, folder / "context")
    words = ["--isolation", "chroot", "--pull-never", "--network", "host", "--build-arg", f"BASE={BASE}"]
    buildah("bud", *words, "--file", EXAMPLES / "Containerfile", "--tag", IMAGE, folder / "context")
    made = buildah("from", "--pull-never", IMAGE)
    yield Path(buildah("mount", made))
    buildah("rm", "--all")


def test_the_image_records_as_the_daemonset_runs_it(image: Path) -> None:
    configuration, daemonset = yaml.safe_load_all((EXAMPLES / "daemonset.yaml").read_text())
    [container] = daemonset["spec"]["template"]["spec"]["containers"]
    capabilities = ",".join(f"+{name.lower()}" for name in container["securityContext"]["capabilities"]["add"])
    (image / "etc/mburst").mkdir()
    (image / "etc/mburst/mburst.toml").write_text(configuration["data"]["mburst.toml"])
    done = subprocess.run(
        [*OWN, "sh", "-c", POD, "sh", str(image), capabilities, *container["args"]],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SEND": SEND},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    interface, packets = done.stdout.splitlines()[-1].split(",")
    assert interface == "eth0" and int(packets) >= 200, done.stdout
