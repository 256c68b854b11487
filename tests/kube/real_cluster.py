"""A Kubernetes of one node on this machine: etcd and containerd of Debian, and of RECOURSE_KUBE_BIN
kube-apiserver, kube-controller-manager, kube-scheduler and kubelet.
"""

import json
import os
import pathlib
import secrets
import sys

import yaml
from images import AGENT, agent_archive, recourse_archive
from programs import Programs, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "helm"))
from chart import tool  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
NODE, NODE6, API = "10.88.0.1", "fd00:88::1", "https://10.88.0.1:6443"
NAMES = f"IP:{NODE},IP:10.96.0.1,DNS:kubernetes.default.svc,DNS:kubernetes"
CLAIMS = 8
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
    "address": NODE, "readOnlyPort": 0, "healthzBindAddress": "127.0.0.1",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    # What a container without systemd has, and a disk that others fill.
    "cgroupDriver": "cgroupfs", "cgroupsPerQOS": False, "enforceNodeAllocatable": [],
    "failSwapOn": False, "failCgroupV1": False, "makeIPTablesUtilChains": False,
    "evictionHard": {f"{what}.{kind}": "0%" for what, kind in (
        ("memory", "available"), ("nodefs", "available"), ("imagefs", "available"),
        ("nodefs", "inodesFree"))},
    "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
    "clusterDNS": [NODE], "clusterDomain": "cluster.local", "resolvConf": "/dev/null",
    "configMapAndSecretChangeDetectionStrategy": "Watch",
}  # fmt: skip
CNI = {"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": {
        "type": "host-local", "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}], "ranges": [
            [{"subnet": "10.88.0.0/16", "rangeStart": "10.88.1.1"}],
            [{"subnet": "fd00:88::/64", "rangeStart": "fd00:88::1:1"}]]}}]}  # fmt: skip
CONTAINERD = """\
version = 2
root = "{home}/containerd"
state = "{home}/containerd-state"
[grpc]
address = "{home}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{agent}"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


class Cluster:
    """In namespaces of this process's own (__main__.py), with which all ends. Its files are below
    `home`, and the cgroups of containers below that of the same name."""

    def __init__(self, programs, recourse, home):
        self.parts, self.recourse, self.home = pathlib.Path(programs), recourse, home
        self.programs = Programs(home)
        self.definitions = os.environ.get("RECOURSE_KUBE_CRDS")  # of other operators' kinds
        self.token = secrets.token_hex(16)
        self.make_network()
        self.start_control_plane()
        self.start_node()
        self.make_storage()

    # --- what runs ------------------------------------------------------------------------------

    @staticmethod
    def make_network():
        for one in ("link set lo up", "link add cni0 type bridge", "link set cni0 up",
                    f"address add {NODE}/16 dev cni0", "route add 10.96.0.0/16 dev cni0",
                    f"address add {NODE6}/64 dev cni0 nodad"):
            run("ip", *one.split())
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def issue(self, name, key, cert, *more):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", key, "-out", cert, "-subj", f"/CN={name}", "-days", 2,
            *more)  # fmt: skip

    def certificate(self, name, names):
        """(certificate, key) of the cluster's CA."""
        key, cert = self.home / f"{name}.key", self.home / f"{name}.crt"
        authority = self.home / "ca"
        self.issue(name, key, cert, "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key",
                   "-addext", f"subjectAltName={names}",
                   "-addext", "basicConstraints=critical,CA:FALSE")  # fmt: skip
        return cert, key

    def start_control_plane(self):
        home = self.home
        self.issue("test", home / "ca.key", home / "ca.crt")
        cert, key = self.certificate("apiserver", NAMES)
        run("openssl", "genrsa", "-out", home / "account.key", 2048)
        (home / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        (home / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": API, "certificate-authority": str(home / "ca.crt")}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }))  # fmt: skip
        self.programs.start("etcd", f"--data-dir={home}/etcd", "--unsafe-no-fsync",
                            env={"ETCD_UNSUPPORTED_ARCH": ""})  # fmt: skip
        self.programs.start(
            self.parts / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0", f"--advertise-address={NODE}", "--secure-port=6443",
            f"--tls-cert-file={cert}", f"--tls-private-key-file={key}", f"--cert-dir={home}",
            "--service-cluster-ip-range=10.96.0.0/16", f"--token-auth-file={home}/tokens.csv",
            f"--service-account-key-file={home}/account.key",
            f"--service-account-signing-key-file={home}/account.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC", "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP")  # fmt: skip
        self.await_true(lambda: self.answers("get", "--raw", "/readyz"))
        config = f"--kubeconfig={home}/kubeconfig"
        self.programs.start(
            self.parts / "kube-controller-manager", config, "--leader-elect=false",
            f"--root-ca-file={home}/ca.crt",
            f"--service-account-private-key-file={home}/account.key",
            "--bind-address=127.0.0.1", f"--cert-dir={home}")  # fmt: skip
        self.programs.start(self.parts / "kube-scheduler", config, "--leader-elect=false",
                            "--bind-address=127.0.0.1", f"--cert-dir={home}")  # fmt: skip
        self.programs.start(sys.executable, HERE / "services.py", API, self.token,
                            home / "ca.crt", NODE)  # fmt: skip

    def start_node(self):
        home = self.home
        (home / "cni").mkdir()
        (home / "cni/10-pods.conflist").write_text(json.dumps(CNI))
        (home / "containerd.toml").write_text(CONTAINERD.format(home=home, agent=AGENT))
        self.programs.start("containerd", "--config", home / "containerd.toml")
        self.await_true((home / "containerd.sock").exists)
        agent_archive(home / "agent.tar")
        recourse_archive(self.recourse, home / "recourse.tar")
        for name in ("agent", "recourse"):
            self.ctr("images", "import", home / f"{name}.tar")
        config = {**KUBELET, "cgroupRoot": f"/{home.name}", "podLogsDir": f"{home}/logs",
                  "containerRuntimeEndpoint": f"unix://{home}/containerd.sock"}  # fmt: skip
        (home / "kubelet.yaml").write_text(yaml.safe_dump(config))
        self.give_cpu()
        self.programs.start(
            self.parts / "kubelet", f"--config={home}/kubelet.yaml",
            f"--kubeconfig={home}/kubeconfig", f"--root-dir={home}/kubelet",
            f"--cert-dir={home}/pki", "--hostname-override=n1",
            f"--node-ip={NODE},{NODE6}")  # fmt: skip
        self.await_true(lambda: self.answers("get", "node", "n1"))
        self.kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=180s")

    def give_cpu(self):
        """Containers that ask for none share what their parent gets, however busy the machine."""
        version_1 = pathlib.Path("/sys/fs/cgroup/cpu")
        if version_1.is_dir():
            group = version_1 / self.home.name
            group.mkdir()
            (group / "cpu.shares").write_text("20480")

    def make_storage(self):
        """Disks of the node, of which each may be claimed once."""
        objects = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                    "metadata": {"name": "disks", "annotations": {
                        "storageclass.kubernetes.io/is-default-class": "true"}},
                    "provisioner": "kubernetes.io/no-provisioner",
                    "volumeBindingMode": "WaitForFirstConsumer"}]  # fmt: skip
        here = {"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}  # fmt: skip
        for number in range(CLAIMS):
            disk = self.home / f"disk-{number}"
            disk.mkdir()
            objects.append({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": disk.name},
                "spec": {"capacity": {"storage": "4Gi"}, "storageClassName": "disks",
                         "accessModes": ["ReadWriteOncePod"], "local": {"path": str(disk)},
                         "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}},
            })  # fmt: skip
        self.apply(*objects)

    # --- what is asked of it --------------------------------------------------------------------

    def await_true(self, holds):
        return self.programs.await_true(holds)

    def ctr(self, *arguments, check=True):
        return run("ctr", f"--address={self.home}/containerd.sock", "--namespace=k8s.io",
                   *arguments, check=check)  # fmt: skip

    def files(self, container, folder):
        """The names of what a container sees there, but the kubelet's own."""
        lines = self.ctr("tasks", "list").stdout.splitlines()
        (pid,) = [line.split()[1] for line in lines if line.startswith(container)]
        found = os.listdir(f"/proc/{pid}/root{folder}")
        return sorted(one for one in found if not one.startswith(".."))

    def tool(self, name, *arguments, **more):
        env = {**os.environ, "KUBECONFIG": str(self.home / "kubeconfig"), "HOME": str(self.home)}
        return run(tool(name), *arguments, env=env, **more)

    def kubectl(self, *arguments, **more):
        return self.tool("kubectl", *arguments, **more)

    def answers(self, *arguments):
        return self.kubectl(*arguments, check=False).returncode == 0

    def helm(self, *arguments, **more):
        return self.tool("helm", *arguments, **more)

    def get(self, *what):
        return json.loads(self.kubectl("get", *what, "-o", "json").stdout)

    def apply(self, *objects, **more):
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        return self.kubectl("apply", "-f", "-", input=json.dumps(listed), **more)

    def version(self):
        told = json.loads(self.kubectl("version", "-o", "json").stdout)
        return told["serverVersion"]["gitVersion"]
