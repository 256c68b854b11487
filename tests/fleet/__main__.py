"""A fleet under load, faults upon its pods and its database, and the verdict.

usage: tests/fleet [--minutes M] [--seed N] [--pods N] [--only pods|database]
                   [--patroni | --url URL]

Pods of one group call through links that can be cut; agents call any of them. The database is a
PostgreSQL of our own; three nodes of Patroni; or that of the URL, upon which no fault comes but cut
links: its role must be allowed to create a schema. The last line says how many promises broke.
"""

import argparse
import pathlib
import random
import secrets
import shutil
import statistics
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import verdict  # noqa: E402
from faults import Faults  # noqa: E402
from load import LOST, ROUTES, Asked, Flows, Numbered, Reads, Writes  # noqa: E402
from patroni import Patroni  # noqa: E402
from pods import Fleet  # noqa: E402
from servers import Given, Own, Wire  # noqa: E402
from support import rawhttp  # noqa: E402
from support.double import Double  # noqa: E402
from support.recourse import run_cli  # noqa: E402
from support.waiting import InVain, wait_until  # noqa: E402

REST_MAX = 240.0
STORIES_MAX = 5  # violations that are told with their rows
# (agents, seconds between two calls of each)
WRITERS, FLOWS, ASKERS, READERS = (4, 0.06), (3, 0.06), (2, 0.3), (1, 0.03)


def parse():
    parser = argparse.ArgumentParser(prog="tests/fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0, help="of faults; default 3")
    parser.add_argument("--seed", type=int, default=1 + secrets.randbelow(2**31))
    parser.add_argument("--pods", type=int, default=3, choices=range(1, 9), metavar="N")
    parser.add_argument("--only", choices=("pods", "database"), help="faults of these alone")
    parser.add_argument("--keep", action="store_true", help="the files of pods and servers")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--patroni", action="store_true")
    where.add_argument("--url", help="a server that is there: postgres://USER@HOST:PORT/DATABASE")
    return parser.parse_args()


class Run:
    def __init__(self, options, directory, database, wire):
        self.options = options
        self.database, self.events = database, []
        self.dice = random.Random(options.seed)
        self.double = Double(directory)
        self.fleet = Fleet(directory, self.double, database, wire, options.pods)
        self.writes = Writes(self.double, self.folder(directory, "writes"), "", "w", 0,
                             options.seed, ROUTES, self.fleet)  # fmt: skip
        self.flows = Flows(self.double, self.folder(directory, "flows"), "f", 4, options.seed,
                           recourse=self.fleet)  # fmt: skip
        self.asked = Asked(self.fleet, random.Random(self.dice.random()))
        self.reads = Reads(self.fleet)
        of_pods = self.fleet.faults() if options.only != "database" else {}
        of_database = database.faults() if options.only != "pods" else {}
        self.faults = Faults(self.dice, of_pods, of_database,
                             [self.writes.history, self.flows.history], self.reads)  # fmt: skip

    @staticmethod
    def folder(directory, name):
        path = pathlib.Path(directory, name)
        path.mkdir()
        return str(path)

    def go(self):
        self.fleet.start()
        self.await_rest()
        threads = []
        for load, (agents, pause) in ((self.writes, WRITERS), (self.flows, FLOWS),
                                      (self.asked, ASKERS), (self.reads, READERS)):  # fmt: skip
            threads += [threading.Thread(target=self.guard, args=(load.agent, pause))
                        for _ in range(agents)]  # fmt: skip
        for thread in threads:
            thread.start()
        try:
            self.faults.strike(time.monotonic() + 60.0 * self.options.minutes, self.await_rest)
        finally:
            self.fleet.is_over.set()
            for thread in threads:
                thread.join()
        assert not self.faults.failures, self.faults.failures
        return self.judge()

    def guard(self, agent, pause):
        try:
            agent(pause)
        except Exception as error:  # noqa: BLE001: told, and ends the run
            self.faults.failures.append(f"an agent: {error!r}")
            raise

    def await_rest(self):
        """Until the database answers and each pod writes."""
        self.database.await_back()
        for pod in self.fleet.pods:
            self.fleet.revive(pod)
            wait_until(lambda pod=pod: self.writes_again(pod),
                       lambda pod=pod: f"a pod does not write: {pod.stderr()[-1500:]}",
                       REST_MAX)  # fmt: skip

    def writes_again(self, pod):
        try:
            path = f"/plain/rest-{secrets.token_hex(6)}"
            return rawhttp.call(pod.port, "POST", path, body={"client_ref": "rest"}).status == 201
        except LOST:
            if not pod.running():
                self.fleet.revive(pod)
            return False

    def judge(self):
        print("    faults have ended; everybody asks until the answer is final", flush=True)
        found = []
        for load in (self.writes, self.flows, self.asked):
            try:
                load.settle()
            except InVain as error:
                found.append(f"I13 {error}")
        first = []

        def is_kept():
            first[:] = self.look()
            return not first

        try:
            wait_until(is_kept, seconds=60.0)
        except InVain:
            found += first
        return found

    def look(self):
        for pod in self.fleet.pods:
            self.fleet.look_at(pod)
        self.events = self.fleet.events()
        numbered, record = Numbered(self.events), self.double.record()
        found = []
        for load in (self.writes, self.flows, self.asked):
            found += load.judge(record, numbered)
        found += self.reads.failed[:3] + verdict.of_owners(self.events)
        streams = set().union(*(pod.streams for pod in self.fleet.pods))
        found += verdict.of_database(self.database, streams)
        taken, begun = (self.database.sql(one) for one in (verdict.TAKEN, verdict.BEGUN))
        found += verdict.of_leases(taken, begun, self.fleet.owners(), self.fleet.drained)
        found += verdict.of_files(self.database.logs())
        return found + self.verify()

    def verify(self):
        said = run_cli("ledger", "verify", "--ledger", self.database.url,
                       *self.fleet.key_arguments, timeout=REST_MAX)  # fmt: skip
        return [] if said.returncode == 0 else [f"I10 verify: {said.stdout} {said.stderr}"]

    def tell(self):
        """Figures of the run; gives how many operations there were."""
        operations = len({event["operation"] for event in self.events})
        calls = self.writes.history.calls + self.flows.history.calls
        took = verdict.take_overs(self.events, self.fleet.deaths)
        print(f"{calls} calls, {len(self.asked.operations)} gated, {self.reads.made} reads; "
              f"{len(self.events)} rows; faults: {self.faults.done}")  # fmt: skip
        print(f"counted by the pods: {self.fleet.sums()}")
        if took:
            print(f"take-over after a kill -9 with calls open: median {statistics.median(took):.1f}"
                  f" s, most {max(took):.1f} s, {len(took)} times")  # fmt: skip
        print(f"reads' p99: {self.reads.p99(False):.1f} ms, "
              f"{self.reads.p99(True):.1f} ms during faults of the database")
        return operations

    def end(self):
        self.fleet.is_over.set()
        self.fleet.kill()
        self.writes.history.close()
        self.flows.history.close()
        self.double.stop()


def database_of(options):
    if options.patroni:
        return Patroni()
    return Given(options.url, options.seed) if options.url else Own()


def main():
    options = parse()
    directory, wire = tempfile.mkdtemp(prefix="recourse-fleet-"), Wire()
    database = run = None
    found, operations = ["the run did not end"], 0
    try:
        database = database_of(options)
        print(f"seed {options.seed}: {options.pods} pods on {database.name}, "
              f"{options.minutes:g} minutes of faults", flush=True)
        run = Run(options, directory, database, wire)
        found = run.go()
        operations = run.tell()
    finally:
        for thing in (run, database, wire):
            if thing is not None:
                thing.end() if thing is run else thing.stop()
        for folder in (directory, *(database.folders if database else [])):
            if options.keep or found:
                print(f"files: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    for number, line in enumerate(found[:40]):
        print(line)
        if run and number < STORIES_MAX:
            print(*verdict.rows_of(line, run.events)[:40], sep="\n")
    print(verdict.count_in_words(found, operations))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
