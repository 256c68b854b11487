"""Reads what /metrics says, and asks Prometheus' own tool about it, and a real Prometheus."""

import json
import re
import subprocess
import urllib.error
import urllib.request

from support.recourse import WAIT_MAX, environment
from support.waiting import wait_until

SAMPLE = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
SUFFIXES = ("_bucket", "_sum", "_count")


def promtool(*arguments, text=None):
    """Runs promtool; gives what it said. Fails when it found fault."""
    done = subprocess.run(
        ["promtool", *map(str, arguments)], input=text, capture_output=True, text=True,
        timeout=WAIT_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_metrics(text):
    said = promtool("check", "metrics", text=text)
    assert not said.strip(), said


class Family:
    def __init__(self, kind, text):
        self.kind, self.help = kind, text
        self.samples = []  # (suffix, labels as a dict, value)

    def labels(self):
        return {name for _, labels, _ in self.samples for name in labels} - {"le"}

    def buckets(self):
        found = {}
        for suffix, labels, value in self.samples:
            if suffix == "_bucket":
                rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
                found.setdefault(rest, []).append((float(labels["le"]), value))
        return found

    def value(self, suffix, labels):
        (found,) = [
            value
            for of, given, value in self.samples
            if of == suffix and tuple(sorted(given.items())) == labels
        ]
        return found


class Scrape:
    """One answer of /metrics."""

    def __init__(self, recourse):
        status, self.text = recourse.probe("/metrics")
        assert status == 200
        self.families = {}
        name = None
        for line in self.text.splitlines():
            if line.startswith("# HELP "):
                _, _, name, text = line.split(" ", 3)
                assert name not in self.families, f"{name} is told twice"
                self.families[name] = Family(None, text)
            elif line.startswith("# TYPE "):
                self.families[name].kind = line.split(" ")[3]
            elif line:
                self.take(name, *SAMPLE.fullmatch(line).groups())

    def take(self, family, name, labels, value):
        suffix = name[len(family):]
        assert name.startswith(family) and suffix in ("", *SUFFIXES), (family, name)
        found = dict(LABEL.findall(labels or ""))
        self.families[family].samples.append((suffix, found, float(value)))

    def sum(self, name, *values):
        """Of all series of that name whose labels have these values."""
        suffix = next((s for s in SUFFIXES if name.endswith(s) and name not in self.families), "")
        family = self.families[name.removesuffix(suffix)]
        return sum(
            value
            for of, labels, value in family.samples
            if of == suffix and set(values) <= set(labels.values())
        )


class Prometheus:
    """A real one that scrapes these processes every second, and keeps exemplars. `processes`:
    each by what the label `instance` says."""

    def __init__(self, directory, processes):
        config = directory / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "recourse",
                                "static_configs": [
                {"targets": [f"127.0.0.1:{one.ports['probes']}"], "labels": {"instance": name}}
                for name, one in processes.items()]}]}))  # fmt: skip
        self.log = directory / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                 "--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage"],
                stderr=log, env=environment())  # fmt: skip

    def __enter__(self):
        listens = re.compile(r'msg="Listening on" address=(\S+)')
        found = wait_until(lambda: listens.search(self.log.read_text()), self.log.read_text)
        self.address = found[1]
        wait_until(self.is_ready, self.log.read_text)
        return self

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=WAIT_MAX):
                return True
        except urllib.error.HTTPError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(WAIT_MAX)

    def get(self, path):
        url = f"http://{self.address}/api/v1/{path}"
        with urllib.request.urlopen(url, timeout=WAIT_MAX) as answer:
            return json.load(answer)["data"]
