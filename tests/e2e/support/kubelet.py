"""As much of a kubelet as it takes to run a rendered pod for real: its volumes, its containers in
order, with their users, rights, read-only roots, mounts, variables and command lines, in the
network of support/pod.py. Probes come from outside of the pod, as a kubelet's do.
"""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from support.pod import AGENT, TOOLS, Pod
from support.recourse import BINARY, STOP_MAX, WAIT_MAX
from support.waiting import wait_until

NET_ADMIN = 12
# What stands for an image: the programs of this machine, and no file of its own beside them.
PROGRAMS = ["/usr", "/etc/ssl", "/etc/ld.so.cache"]
CONTAINER = pathlib.Path(__file__).with_name("container.py")
DEVICES = ["null", "zero", "urandom"]
LINKS = ["bin", "sbin", "lib", "lib64"]
PATH = "/usr/sbin:/usr/bin"
ENTRYPOINT = "/usr/bin/recourse"  # of helm/Dockerfile


def write_volume(directory, files, mode, group):
    """As the kubelet writes a ConfigMap or a Secret: links into a directory that is swapped."""
    real = directory / "..2026_11_22"
    real.mkdir(parents=True)
    for name, text in files.items():
        (real / name).write_text(text)
        os.chown(real / name, 0, group)
        os.chmod(real / name, mode)
        (directory / name).symlink_to(f"..data/{name}")
    (directory / "..data").symlink_to(real.name)


class Node:
    """Has a network for one pod at a time, and its disks: claims outlive pods."""

    def __init__(self, directory, network, objects, secrets=None, config_maps=None, image=None):
        self.directory, self.network = pathlib.Path(directory), network
        self.own_image = image  # a root for Recourse; without one it runs in the stand-in
        self.config_maps = {one["metadata"]["name"]: one["data"] for one in objects
                            if one["kind"] == "ConfigMap"}  # fmt: skip
        self.config_maps.update(config_maps or {})
        self.secrets = secrets or {}
        self.numbers = itertools.count(1)
        self.image = self.directory / "image"
        (self.image / "proc").mkdir(parents=True)
        for name in LINKS:
            (self.image / name).symlink_to(f"usr/{name}")

    def image_of(self, argv):
        """(root, what of this machine is bound into it) for a command line, which may change."""
        etc = self.network.etc
        binds = [[f"/dev/{name}", f"/dev/{name}", True] for name in DEVICES]
        binds.append([str(etc / "hosts"), "/etc/hosts", True])
        if self.own_image and argv[0] == ENTRYPOINT:
            return self.own_image, binds
        binds.append([str(etc / "nsswitch.conf"), "/etc/nsswitch.conf", True])
        binds += [[path, path, True] for path in PROGRAMS]
        if argv[0] == ENTRYPOINT:  # /usr is this machine's, where it is not installed
            argv[0] = "/recourse"
            binds.append([BINARY, "/recourse", True])
        return self.image, binds

    def claim(self, name, group):
        """A formatted disk whose root belongs to the pod's group; the same for the same name."""
        path = self.directory / "claims" / name
        if not path.exists():
            path.mkdir(parents=True)
            os.chown(path, 0, group)
            os.chmod(path, 0o2775)
        return path

    def projected(self, source):
        """{file: text} of one source of a projected volume."""
        if "configMap" in source:
            return self.config_maps[source["configMap"]["name"]]
        secret = self.secrets[source["secret"]["name"]]
        return {one["path"]: secret[one["key"]] for one in source["secret"]["items"]}

    def volumes(self, name, pod, templates):
        """{name: directory} of a new pod's volumes."""
        group = pod["spec"].get("securityContext", {}).get("fsGroup", 0)
        home = self.directory / f"pod-{next(self.numbers)}"
        made = {one["metadata"]["name"]: self.claim(f"{one['metadata']['name']}-{name}", group)
                for one in templates}  # fmt: skip
        for volume in pod["spec"].get("volumes", []):
            path = made[volume["name"]] = home / volume["name"]
            if "configMap" in volume:
                write_volume(path, self.config_maps[volume["configMap"]["name"]], 0o644, group)
            elif "projected" in volume:
                files = {}
                for source in volume["projected"]["sources"]:
                    files.update(self.projected(source))
                write_volume(path, files, 0o644, group)
            elif "secret" in volume:
                secret = volume["secret"]
                write_volume(path, self.secrets[secret["secretName"]], secret["defaultMode"], group)
            elif "downwardAPI" in volume:
                write_volume(path, {}, 0o644, group)
            elif "emptyDir" in volume:
                path.mkdir(parents=True)
                os.chown(path, 0, group)
                os.chmod(path, 0o2777)
            elif "ephemeral" in volume:
                made[volume["name"]] = self.claim(f"{home.name}-{volume['name']}", group)
            else:
                wanted = volume["persistentVolumeClaim"]["claimName"]
                made[volume["name"]] = self.claim(wanted, group)
        return made

    def start(self, container, pod, volumes, argv=None, namespace=None):
        """A process of the container: its own, or `argv` as `kubectl exec` runs it."""
        rights = container.get("securityContext", {})
        kept = rights.get("capabilities", {}).get("add", [])
        assert kept in ([], ["NET_ADMIN"]) and rights.get("readOnlyRootFilesystem") is True
        own = [*container.get("command", [ENTRYPOINT]), *container.get("args", [])]
        argv = [ENTRYPOINT, *argv] if argv else own
        root, binds = self.image_of(argv)
        environment = {one["name"]: value_of(one, pod) for one in container.get("env", [])}
        user = rights["runAsUser"]
        spec = {
            "root": str(root),
            "binds": binds + [
                [str(volumes[one["name"]]), one["mountPath"], one.get("readOnly", False)]
                for one in container.get("volumeMounts", [])],
            "user": user, "group": rights["runAsGroup"],
            "groups": [pod["spec"].get("securityContext", {}).get("fsGroup", user)],
            "capabilities": [NET_ADMIN] if kept else [],
            "argv": [shutil.which(argv[0], path=PATH) or argv[0], *argv[1:]],
            "env": {"PATH": PATH, **environment},
        }  # fmt: skip
        log = self.directory / f"{next(self.numbers)}-{container['name']}"
        return Process(namespace or self.network.agent, spec, log)


def value_of(variable, pod):
    if "valueFrom" not in variable:
        return variable["value"]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    return pod["metadata"]["uid"]


class Process:
    """One process of a container, the first of its own PID namespace; what it says is in files."""

    def __init__(self, namespace, spec, log):
        self.out, self.err = log.with_suffix(".out"), log.with_suffix(".err")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, "unshare", "--mount", "--pid", "--fork",
                 sys.executable, CONTAINER, json.dumps(spec)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    def said(self):
        return self.out.read_text() + self.err.read_text()

    def wait(self, timeout=STOP_MAX):
        return self.process.wait(timeout)

    def signal(self, number):
        """To the process itself, which is a child of the one that made its namespaces."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")

        def child():
            found = children.read_text().split()
            assert found or self.process.poll() is None, self.said()[-4000:]
            return found and found[0]

        os.kill(int(wait_until(child, lambda: self.said()[-4000:])), number)

    def end(self):
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def await_said(self, text, count=1):
        def is_said():
            has_ended = self.process.poll() is not None
            found = self.said().count(text) >= count
            assert found or not has_ended, self.said()[-4000:]
            return found

        wait_until(is_said, lambda: self.said()[-4000:])

    def kill(self):
        if self.process.poll() is None:
            # It may end by itself just now.
            with contextlib.suppress(AssertionError, ProcessLookupError):
                self.signal(signal.SIGKILL)
        self.process.wait(STOP_MAX)


class RunningPod:
    """A pod whose init containers have run and whose sidecar is ready; then `agent()` begins."""

    def __init__(self, node, name, pod, templates=()):
        uid = f"uid-{next(node.numbers)}"
        pod = {**pod, "metadata": {**pod.get("metadata", {}), "uid": uid}}
        self.node, self.pod, self.started = node, pod, []
        self.volumes = node.volumes(name, pod, templates)
        self.sidecar = None

    def __enter__(self):
        try:
            for container in self.pod["spec"].get("initContainers", []):
                process = self.run(container)
                if container.get("restartPolicy") == "Always":
                    self.sidecar, self.sidecar_container = process, container
                    self.await_probe(container["startupProbe"])
                else:
                    assert process.wait() == 0, process.said()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for process in self.started:
            process.kill()
        # The next pod has a network of its own.
        self.node.network.run("nft", "flush", "ruleset", timeout=WAIT_MAX)

    def run(self, container, argv=None):
        self.started.append(self.node.start(container, self.pod, self.volumes, argv))
        return self.started[-1]

    def agent(self, **changes):
        """Starts the pod's one main container."""
        (container,) = self.pod["spec"]["containers"]
        return self.run({**container, **changes})

    def exec(self, *argv):
        """`kubectl exec -c recourse -- recourse ARGV`: exit code and what it said."""
        process = self.run(self.sidecar_container, [str(one) for one in argv])
        return process.wait(), process.said()

    def probe(self, probe):
        """The status that a kubelet gets, or None; it comes from outside of the pod."""
        asked = probe["httpGet"]
        (port,) = [one["containerPort"] for one in self.sidecar_container["ports"]
                   if one["name"] == asked["port"]]  # fmt: skip

        def ask():
            connection = http.client.HTTPConnection(AGENT, port, timeout=WAIT_MAX)
            try:
                connection.request("GET", asked["path"])
                return connection.getresponse().status
            except ConnectionError:
                return None
            finally:
                connection.close()

        return self.node.network.inside(ask, self.node.network.tools)

    def await_probe(self, probe, status=200):
        def is_told():
            is_so = self.probe(probe) == status
            assert is_so or self.sidecar.process.poll() is None, self.sidecar.said()[-4000:]
            return is_so

        wait_until(is_told, lambda: self.sidecar.said()[-4000:])


def impatient(container):
    """The same, but without a wait for another process that may end and leave it the ledger."""
    arguments = [
        "--drain-timeout=0s" if one.startswith("--drain-timeout=") else one
        for one in container["args"]
    ]
    assert arguments != container["args"]
    return {**container, "args": arguments}


@contextlib.contextmanager
def network(*hosts):
    """A pod's network in which these names lead to the other namespace, for `backend` there."""
    with tempfile.TemporaryDirectory() as directory, Pod(directory) as pod:
        with open(pod.etc / "hosts", "a", encoding="utf-8") as file:
            file.writelines(f"{TOOLS} {host}\n" for host in hosts)
        # A Service: its port 80 leads to the pod's 8080.
        subprocess.run(
            ["ip", "netns", "exec", pod.tools, "nft", "-f", "-"],
            input="table ip service { chain in { type nat hook prerouting priority -100; "
            "tcp dport 80 redirect to :8080; }; }",
            text=True, check=True,
        )  # fmt: skip
        yield pod
