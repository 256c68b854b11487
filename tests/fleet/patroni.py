"""Three nodes of etcd and three of Patroni on 127.0.0.1, with a synchronous standby, and what may
befall them."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile

from servers import BACK_MAX, Database, kill_all, processes_under, signal_all
from signal import SIGCONT, SIGSTOP, SIGTERM

from support.postgres import PROGRAMS, as_another_user
from support.waiting import InVain, lasts, wait_until

NODES = (0, 1, 2)
# Until a leader that is silent is replaced: by Patroni's own word.
TTL = 20
# Then somebody on call would mend it; one fault may leave more than one thing to mend.
STUCK_S, MENDS_MAX = 90.0, 3
CONFIG = """\
scope: recourse
name: n{node}
restapi: {{ listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}" }}
etcd3: {{ hosts: [ {etcd} ] }}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 5
    retry_timeout: 6
    maximum_lag_on_failover: 0
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters: {{ synchronous_commit: "on", max_connections: 60, wal_log_hints: "on" }}
  initdb: [ encoding: UTF8, data-checksums, no-sync ]
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: 127.0.0.1:{port}
  data_dir: {folder}/n{node}/data
  bin_dir: {programs}
  pgpass: {folder}/n{node}/pgpass
  basebackup: [ checkpoint: fast ]
  pg_hba: [ "local all all trust", "host all all 127.0.0.1/32 trust",
            "host replication all 127.0.0.1/32 trust" ]
  parameters: {{ unix_socket_directories: {folder}/n{node}, shared_buffers: 32MB,
                max_wal_size: 256MB, fsync: "off", full_page_writes: "on" }}
  authentication:
    superuser: {{ username: postgres, password: p }}
    replication: {{ username: repl, password: p }}
    rewind: {{ username: rw, password: p }}
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Patroni(Database):
    name = "three nodes of Patroni"

    def __init__(self):
        for program in ("etcd", "patroni"):
            if shutil.which(program) is None:
                raise SystemExit(f"{program} is not installed; ./dev fleet --patroni installs it")
        self.folder = tempfile.mkdtemp(prefix="recourse-patroni-")
        self.folders = [self.folder]
        os.chmod(self.folder, 0o755)
        self.ports, self.rest, self.clients, self.peers = (free_ports(3) for _ in range(4))
        self.targets = [["127.0.0.1", port] for port in self.ports]
        self.etcd, self.nodes = [None] * 3, [None] * 3
        for node in NODES:
            self.start_etcd(node)
        for node in NODES:
            self.configure(node)
            self.start_node(node)
        self.url = self.through(self.ports)
        self.await_back()

    def through(self, ports):
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return (f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"
                "&connect_timeout=2&sslmode=disable")  # fmt: skip

    def start_etcd(self, node):
        def at(ports):
            return f"http://127.0.0.1:{ports[node]}"

        cluster = ",".join(f"e{one}=http://127.0.0.1:{self.peers[one]}" for one in NODES)
        self.etcd[node] = self.spawn(
            f"etcd{node}",
            ["etcd", "--name", f"e{node}", "--data-dir", f"{self.folder}/etcd{node}",
             "--unsafe-no-fsync", "--listen-client-urls", at(self.clients),
             "--advertise-client-urls", at(self.clients), "--listen-peer-urls", at(self.peers),
             "--initial-advertise-peer-urls", at(self.peers), "--initial-cluster", cluster,
             "--initial-cluster-state", "new", "--initial-cluster-token", "fleet"],
        )  # fmt: skip

    def configure(self, node):
        home = pathlib.Path(self.folder, f"n{node}")
        home.mkdir(mode=0o700)
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(home, user.pw_uid, user.pw_gid)
        pathlib.Path(self.folder, f"n{node}.yml").write_text(CONFIG.format(
            node=node, rest=self.rest[node], port=self.ports[node], folder=self.folder, ttl=TTL,
            etcd=", ".join(f'"127.0.0.1:{port}"' for port in self.clients),
            programs=PROGRAMS,
        ))  # fmt: skip

    def start_node(self, node):
        command = ["patroni", f"{self.folder}/n{node}.yml"]
        self.nodes[node] = self.spawn(f"patroni{node}", as_another_user(command))

    def spawn(self, name, command):
        with open(f"{self.folder}/{name}.log", "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    cwd="/", start_new_session=True)  # fmt: skip

    def stop(self):
        signal_all([*self.all_pids(), *(p.pid for p in self.etcd)], SIGCONT)
        for process in self.nodes:
            process.send_signal(SIGTERM)
        for process in self.nodes:
            process.wait(BACK_MAX)
        for node in NODES:
            kill_all(self.server_pids(node))
        for process in self.etcd:
            process.kill()
            process.wait()

    # Who is what.
    def server_pids(self, node):
        """PostgreSQL's of that node."""
        path = pathlib.Path(self.folder, f"n{node}", "data", "postmaster.pid")
        try:
            first = int(path.read_text().split("\n")[0])
        except (OSError, ValueError):
            return []
        return processes_under(first)

    def node_pids(self, node):
        return [self.nodes[node].pid, *self.server_pids(node)]

    def all_pids(self):
        return [pid for node in NODES for pid in self.node_pids(node)]

    def ask(self, node, method, path, body=None):
        """(status, text), or (0, why not)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest[node], timeout=5)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()

    def leader(self, but=()):
        for node in NODES:
            if node not in but and self.ask(node, "GET", "/leader")[0] == 200:
                return node
        return None

    def await_leader(self, but=()):
        return wait_until(lambda: (self.leader(but), 0) if self.leader(but) is not None else None,
                          "no node leads", BACK_MAX)[0]  # fmt: skip

    def await_next(self, lost):
        """Who leads in its place; nobody, where Patroni itself is stuck: then the fault ends."""
        try:
            wait_until(lambda: self.leader([lost]) is not None, seconds=STUCK_S)
        except InVain:
            print(f"    nobody led in place of n{lost} for {STUCK_S:g} s", flush=True)

    def roles(self):
        """{node: "master", "replica", ...} of those that a leader counts."""
        for node in NODES:
            status, text = self.ask(node, "GET", "/cluster")
            if status == 200:
                return {one["name"]: one for one in json.loads(text)["members"]}
        return {}

    def followers(self):
        """Those that stream from who leads; None: nobody leads."""
        for node in NODES:
            status, text = self.ask(node, "GET", "/leader")
            if status == 200:
                streams = json.loads(text).get("replication", [])
                return {one["application_name"] for one in streams if one["state"] == "streaming"}
        return None

    def is_whole(self):
        """A leader, a synchronous standby that follows, and nobody left behind."""
        roles = self.roles().values()
        kinds = [one["role"] for one in roles if one["state"] in ("running", "streaming")]
        is_said = len(kinds) == 3 and "leader" in kinds and "sync_standby" in kinds
        return is_said and len(self.followers() or ()) == 2

    def await_back(self):
        for _ in range(MENDS_MAX):
            try:
                wait_until(self.is_whole, seconds=STUCK_S)
                break
            except InVain:
                self.mend()
        wait_until(self.is_whole, lambda: f"the cluster is not whole: {self.roles()}", BACK_MAX)
        super().await_back()

    def mend(self):
        """What somebody on call does: a replica that cannot follow is copied anew, as one may be
        that was ahead of the standby that leads now, or that was promoted as that one was: Patroni
        3.0 does not rewind two histories of one number. Else the agents are started anew, and
        where all follow the leader, it is let name who confirms its commits."""
        roles, followers = self.roles(), self.followers()
        cannot = [node for node in NODES
                  if roles.get(f"n{node}", {}).get("role", "leader") != "leader"
                  and followers is not None and f"n{node}" not in followers]  # fmt: skip
        if cannot:
            print(f"    not whole for {STUCK_S:g} s, copied anew: {cannot}", flush=True)
            for node in cannot:
                self.ask(node, "POST", "/reinitialize", json.dumps({"force": True}))
            return
        self.restart_agents()
        if sorted(one["role"] for one in roles.values()) == ["leader", "replica", "replica"]:
            self.forget_standby()

    def forget_standby(self):
        """A leader that was stopped can take its lock back from who led meanwhile, whose word of
        who is synchronous stands then, and no other leader of Patroni 3.0 changes it."""
        etcd = http.client.HTTPConnection("127.0.0.1", self.clients[0], timeout=5)
        key = base64.b64encode(b"/service/recourse/sync").decode()

        def forget():
            with contextlib.closing(etcd), contextlib.suppress(OSError):
                etcd.request("POST", "/v3/kv/deleterange", json.dumps({"key": key}))
                return etcd.getresponse().status == 200
            return False

        wait_until(forget, "etcd does not answer", BACK_MAX)

    def restart_agents(self):
        """Of Patroni 3.0 a leader can go on with an old state of etcd, in which it may name no
        synchronous standby ("Synchronous replication key updated by someone else"). The servers
        run on."""
        print(f"    not whole for {STUCK_S:g} s, Patroni and etcd are started anew: "
              f"{self.roles()}", flush=True)
        agents = [*self.nodes, *self.etcd]
        kill_all([process.pid for process in agents])
        for process in agents:
            process.wait()
        for node in NODES:
            self.start_etcd(node)
        for node in NODES:
            self.start_node(node)

    # What befalls them.
    def faults(self):
        return {"leader killed": self.kill_leader, "leader stopped": self.stop_leader,
                "switchover": self.switch_over, "etcd without a quorum": self.lose_quorum,
                "no standby": self.lose_standbys}  # fmt: skip

    def kill_leader(self, dice):
        node = self.await_leader()
        pids = self.node_pids(node)
        signal_all(pids, SIGSTOP)
        kill_all([*pids, *self.server_pids(node)])
        self.nodes[node].wait()
        self.await_next(node)
        lasts(dice.uniform(0.0, 4.0))  # how long the node is away is what this is about
        self.start_node(node)

    def stop_leader(self, dice):
        node = self.await_leader()
        pids = self.node_pids(node)
        signal_all(pids, SIGSTOP)
        try:
            self.await_next(node)
            lasts(dice.uniform(0.0, 4.0))  # as above
        finally:
            signal_all(pids, SIGCONT)

    def switch_over(self, _):
        node = self.await_leader()
        wait_until(self.is_whole, "nobody could lead", BACK_MAX)
        status, text = self.ask(node, "POST", "/switchover", json.dumps({"leader": f"n{node}"}))
        if status in (200, 202):
            self.await_leader([node])
        else:
            print(f"    no switchover: {status} {text}", flush=True)

    def lose_quorum(self, dice):
        """The leader takes itself back, and there is none."""
        pids = [process.pid for process in dice.sample(self.etcd, 2)]
        signal_all(pids, SIGSTOP)
        try:
            lasts(dice.uniform(TTL / 2, TTL + 10.0))  # as above
        finally:
            signal_all(pids, SIGCONT)

    def lose_standbys(self, dice):
        """Nobody confirms a commit, so that none is acknowledged."""
        leader = self.await_leader()
        pids = [pid for node in NODES if node != leader for pid in self.node_pids(node)]
        signal_all(pids, SIGSTOP)
        try:
            lasts(dice.uniform(4.0, 15.0))  # as above
        finally:
            signal_all(pids, SIGCONT)
