"""`./dev kube`: the chart, the injector and the image in a real Kubernetes on this machine.

Needs root, and in RECOURSE_KUBE_BIN the programs kube-apiserver, kube-controller-manager,
kube-scheduler and kubelet, as Kubernetes releases them (1.33 or newer). Some cases need more, and
say so: RECOURSE_KUBE_CRDS is a folder with the CustomResourceDefinitions of cert-manager and of
Prometheus' operator, RECOURSE_CERT_MANAGER_BIN one with the programs controller, cainjector and
webhook of cert-manager's images.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import admission  # noqa: E402
import certificates  # noqa: E402
import life  # noqa: E402
import platforms  # noqa: E402
import replicas  # noqa: E402
import seen  # noqa: E402
from programs import NotRun, run, wait_until  # noqa: E402
from real_cluster import Cluster  # noqa: E402

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
HOME = "RECOURSE_KUBE_HOME"  # set for the process in namespaces of its own
# When it ends, the kernel ends all processes, containers, mounts and networks.
ALONE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
# Where containerd, the kubelet and CNI plugins keep what outlives them.
STATE = ("/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log")


class Report:
    def __init__(self):
        self.counts, self.begun = {"ok": 0, "FAILED": 0, "not run": 0}, time.monotonic()

    def __call__(self, name, said, mark=""):
        now = time.monotonic()
        mark = mark or ("FAILED" if said else "ok")
        print(f"{mark:7} {name.replace('_', ' ')} ({now - self.begun:.0f} s)", flush=True)
        if said:
            print(f"        {said}", flush=True)
        self.begun = now
        self.counts[mark] += 1

    def live(self, cluster, cases):
        for case in cases:
            try:
                case(cluster)
                self(case.__name__, "")
            except NotRun as reason:
                self(case.__name__, reason, "not run")
            except Exception as error:  # whatever it is, the others go on
                self(case.__name__, f"{type(error).__name__}: {error}")


def play(wanted):
    for one in STATE:
        os.makedirs(one, exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", one)
    report = Report()
    cluster = Cluster(os.environ["RECOURSE_KUBE_BIN"], os.environ["RECOURSE_BIN"],
                      pathlib.Path(os.environ[HOME]))  # fmt: skip
    print(f"Kubernetes {cluster.version()}", flush=True)
    report.live(cluster, life.BEFORE)
    if wanted.record or not wanted.only:
        admission.play(cluster, report, wanted.record)
    if not wanted.admission:
        after = [*life.AFTER, *seen.ALL, *replicas.ALL, *platforms.ALL, *certificates.ALL,
                 *life.LAST]  # fmt: skip
        report.live(cluster, [
            one for one in after
            if any(word in one.__name__ for word in (wanted.only or "").split(","))])  # fmt: skip
    passed, failed, not_run = report.counts.values()
    print(f"{passed} passed, {failed} failed" + (f", {not_run} skipped" if not_run else ""),
          flush=True)  # fmt: skip
    return 1 if failed else 0


def remove_cgroups(name):
    """Those of the containers, whose processes have been killed."""
    for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/{name}"):
        for folder in [*sorted(top.glob("**/"), reverse=True)]:
            wait_until(lambda folder=folder: is_removed(folder), f"{folder} is in use")


def is_removed(folder):
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def programs():
    """The folder that has them."""
    named = os.environ.get("RECOURSE_KUBE_BIN")
    if not named:
        raise SystemExit("set RECOURSE_KUBE_BIN to a folder with the programs of Kubernetes: "
                         f"{', '.join(PROGRAMS)} (tests/kube/README.md)")  # fmt: skip
    found = pathlib.Path(named).resolve()
    missing = [one for one in PROGRAMS if not os.access(found / one, os.X_OK)]
    if missing:
        raise SystemExit(f"RECOURSE_KUBE_BIN={found} has no {', '.join(missing)}")
    return found


def main():
    parser = argparse.ArgumentParser(prog="./dev kube", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep what the API server asked")
    parser.add_argument("--admission", action="store_true", help="end after what is asked there")
    parser.add_argument("--only", metavar="WORD,...", help="of what comes after that, what has one "
                        "of them in its name; what is asked there only with --record")  # fmt: skip
    wanted = parser.parse_args()
    if HOME in os.environ:
        sys.exit(play(wanted))
    if os.geteuid() != 0:
        raise SystemExit("./dev kube makes namespaces and containers: run it as root")
    found = programs()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster ends, too
    # On a disk: layers of images and ledgers need one.
    with tempfile.TemporaryDirectory(prefix="recourse-kube-", dir="/var/tmp") as home:
        try:
            done = subprocess.run([*ALONE, sys.executable, __file__, *sys.argv[1:]], check=False,
                                  env={**os.environ, HOME: home, "RECOURSE_KUBE_BIN": str(found)},
                                  )  # fmt: skip
        finally:
            remove_cgroups(pathlib.Path(home).name)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
