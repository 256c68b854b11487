"""The users' pages: their commands print what stands there, their examples are valid."""

import contextlib
import json
import os
import re
import subprocess
import textwrap

import pytest
import yaml

from support import flows, rawhttp
from support.approvals import Staffed, token_of
from support.npm import CLIENTS
from support.pages import blocks, shell, shows, transcript
from support.policies import observed
from support.ports import free_ports
from support.recourse import ROOT, WAIT_MAX, Recourse, run_cli
from support.waiting import wait_until
from test_dev_run import built_tree  # noqa: F401
from test_observe import OTHER, TRACE, order

README = "README.md"
POLICIES = "policy/README.md"


def check(tmp_path, policy):
    """`policy check` of a policy that a page shows."""
    path = tmp_path / "policy.yaml"
    path.write_text(policy if isinstance(policy, str) else yaml.safe_dump(policy))
    done = run_cli("policy", "check", path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_shown(page, outputs):
    for (command, expected), said in zip(page, outputs, strict=True):
        assert shows(expected, said), f"$ {command}\n{said}\n--- but the page says\n{expected}"


# --- the README ----------------------------------------------------------------------------------


@contextlib.contextmanager
def running_demo(tree, first, log):
    root, path = tree
    with open(log, "wb") as out:
        env = {**os.environ, "PATH": path, "RECOURSE_SKIP_INSTALL": "1",
               "RECOURSE_DEMO_PORT": str(first)}  # fmt: skip
        running = subprocess.Popen(
            [root / "dev", "run"], cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            yield running
        finally:
            running.terminate()
            running.wait(WAIT_MAX)


def of_demo(text, first):
    """Commands of the README, at other ports than they stand for."""
    for offset in range(4):
        text = text.replace(f":{19080 + offset}", f":{first + offset}")
    return text.replace("build/demo/", f"build/demo-{first}/")


def test_the_first_try_orders_once_over_a_kill(packages, tree, tmp_path):
    first, log = free_ports(4), tmp_path / "log"
    _, commands = blocks(README)[:2]
    with running_demo(tree, first, log):
        wait_until(lambda: "Paste these" in log.read_text(), log.read_text)
        (said,) = shell(tree[0], [of_demo(commands, first)])
    assert said.splitlines() == ["both answers: the same bytes", '{"rows":1}'], said
    assert "was killed (SIGKILL); starting it again" in log.read_text()


def test_a_demo_that_is_killed_before_it_is_ready_starts_again(packages, tree, tmp_path):
    first, log = free_ports(4), tmp_path / "log"
    pid = tree[0] / f"build/demo-{first}/recourse.pid"
    with running_demo(tree, first, log):
        wait_until(lambda: pid.exists() and pid.read_text().strip(), log.read_text)
        os.kill(int(pid.read_text()), 9)
        wait_until(lambda: "Paste these" in log.read_text(), log.read_text)
    assert "was killed (SIGKILL); starting it again" in log.read_text()


def test_ones_own_backend_gets_one_order(packages, tmp_path):
    first = free_ports(4)
    (policy,) = blocks(README, "yaml")
    commands = transcript(next(block for block in blocks(README) if "policy check" in block))
    (tmp_path / "policy.yaml").write_text(policy)
    (checked,) = shell(tmp_path, [commands[0][0]])
    assert checked == commands[0][1]  # the version too: it is the text's

    (tmp_path / "db.json").write_text('{"orders": []}')
    with subprocess.Popen(["node", CLIENTS / "json-server.mjs", tmp_path / "db.json"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shop:  # fmt: skip
        port = int(shop.stdout.readline())
        policy = policy.replace(":8000", f":{port}").replace(":19080", f":{first}")
        (tmp_path / "policy.yaml").write_text(policy)
        env = {f"RECOURSE_{name}": f"127.0.0.1:{first + offset}"
               for offset, name in enumerate(("LISTEN", "ADMIN", "PROBES"))}  # fmt: skip
        later = [(of_demo(command, first), said) for command, said in commands[1:]]
        assert_shown(later, shell(tmp_path, [command for command, _ in later], env))
        shop.stdin.close()
    assert len(json.loads((tmp_path / "db.json").read_text())["orders"]) == 1


# --- the policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [POLICIES, "policy/packs/README.md"])
def test_commands_on_policies_print_what_the_page_shows(page, tmp_path):
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy/examples").symlink_to(ROOT / "policy/examples")
    for block in blocks(page, "console"):
        commands = transcript(block)
        outputs = shell(tmp_path, ["set -o errexit\n" + command for command, _ in commands])
        assert len(outputs) == len(commands), outputs
        assert all("error:" not in said for said in outputs), outputs
        assert_shown([one for one in commands if one[1]],
                     [said for one, said in zip(commands, outputs, strict=True) if one[1]])


BASE = {
    "version": 1,
    "backends": {
        "shop": {"url": "http://10.0.0.5:8000", "hosts": ["shop.local:19080"]},
    },
    "tools": {
        "orders.create": {"match": "POST shop /orders", "effect": "write", "reason": "it stays"},
    },
}


@pytest.mark.parametrize("page", [POLICIES, "proxy/docs/agents.md", "proxy/docs/shared-ledger.md"])
def test_parts_of_policies_are_valid_in_a_whole_one(page, tmp_path):
    found = [yaml.safe_load(textwrap.dedent(block)) for block in blocks(page, "yaml")]
    assert found
    for part in found:
        if "approval" in part:
            tool = {**BASE["tools"]["orders.create"], **part}
            part = {"tools": {"orders.create": tool}}
        check(tmp_path, {**BASE, **part})


# --- what pages name -----------------------------------------------------------------------------


def told_commands(page):
    """(words, options) of each `recourse ...` that a page tells of."""
    text = (ROOT / page).read_text()
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = re.findall(r"`(recourse [^`]+)`", " ".join(prose.split()))
    lines += re.findall(r"^ *\$ (recourse .+)$", text.replace("\\\n", " "), re.MULTILINE)
    for line in lines:
        line = re.split(r" [|>&;]|'", line)[0]
        words = re.match(r"recourse((?: [a-z][a-z-]+(?![\w./]))*)", line)[1].split()
        yield words, set(re.findall(r"(?<=[ \[])--[a-z][a-z-]+", line))


def test_every_command_and_option_that_users_pages_name_exists():
    pages = ["README.md", "SECURITY.md", POLICIES, "policy/packs/README.md", "proxy/RUNNING.md",
             "proxy/drill/README.md", "proxy/report/README.md", "helm/README.md"]  # fmt: skip
    pages += [str(path.relative_to(ROOT)) for path in (ROOT / "proxy/docs").glob("*.md")]
    told = {}
    for page in pages:
        for words, options in told_commands(page):
            told.setdefault(tuple(words), set()).update(options)
    assert len(told) > 40, told
    for words, options in told.items():
        done = run_cli(*words, "--help")
        assert done.returncode == 0 and "Usage" in done.stdout, (words, done)
        for option in options:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", done.stdout), (words, option)


# --- flows and approvals -------------------------------------------------------------------------


def as_operator(running, token_file):
    return {"RECOURSE_ADMIN": f"127.0.0.1:{running.ports['admin']}",
            "RECOURSE_ADMIN_TOKEN_FILE": str(token_file)}  # fmt: skip


@pytest.fixture(scope="module")
def shop(double, tmp_path_factory):
    with Recourse(tmp_path_factory.mktemp("flows"), flows.policy(double)) as running:
        yield flows.Shop(running, double)


def test_a_broken_flow_is_told_as_its_page_shows(shop, tmp_path):
    agent = shop.agent("pages-undone")
    agent.does("orders", "payments")
    agent.breaks()
    agent.await_undone()
    command, expected = transcript(blocks("proxy/docs/flows.md")[0])[0]
    command = re.sub(r"--trace \w+", f"--trace {agent.trace}", command)
    env = as_operator(shop.recourse, shop.recourse.token_path)
    (said,) = shell(tmp_path, [command], env, is_terminal=True)
    assert shows(expected, said, is_shortened=True), said


def test_a_parked_flow_is_resolved_as_its_page_shows(shop, tmp_path):
    agent = shop.agent("pages-parked")
    agent.does("orders", "payments")
    agent.script_undo("payments", flows.answer_with("403 Forbidden"))
    agent.breaks()
    agent.await_parked()
    (listing, listed), (resolving, resolved) = transcript(blocks("proxy/docs/flows.md")[1])
    env = as_operator(shop.recourse, shop.recourse.token_path)
    (said,) = shell(tmp_path, [listing], env, is_terminal=True)
    assert shows(listed, said), said
    flow = re.search(r"^ *(\d+) ", said, re.MULTILINE)[1]
    step = re.search(r"step (\d+)", said)[1]
    resolving = re.sub(r"resolve \d+ --step \d+", f"resolve {flow} --step {step}", resolving)
    assert shows(resolved, shell(tmp_path, [resolving], env)[0])


MAIL = """\
version: 1
backends:
  mail: {{ url: "{url}", hosts: [ 127.0.0.1 ] }}
tools:
  mail.send: {{ match: POST mail /send, effect: write, undo: none, reason: mail is out,
               approval: {{ by: [ finance ], hold: 0s }} }}
"""


def test_an_approval_goes_as_its_page_shows(double, tmp_path):
    call, listing, showing, approving = transcript(blocks("proxy/docs/approvals.md")[0])
    with Staffed(tmp_path / "recourse", MAIL.format(url=double.url)) as running:
        token = tmp_path / "token"
        token.write_text(token_of("ann"))
        token.chmod(0o600)
        env = as_operator(running, token)
        to_us = call[0].replace("http://mail.svc", f"http://127.0.0.1:{running.port}")
        asked, listed = shell(tmp_path, [to_us, listing[0]], env, is_terminal=True)
        assert shows(call[1], asked) and shows(listing[1], listed), (asked, listed)
        operation = json.loads(asked)["operation"]
        (shown,) = shell(tmp_path, [showing[0].replace("show 3", f"show {operation}")], env)
        assert shows(showing[1], shown), shown
        digest = re.search(r"^digest +(\w+)$", shown, re.MULTILINE)[1]
        command = re.sub(r"--digest \w+", f"--digest {digest}", approving[0])
        command = command.replace("approve 3", f"approve {operation}")
        (said,) = shell(tmp_path, [command], env)
        # It may have been sent by the time that the command looks.
        assert shows(approving[1], said.replace(" is running ", " is approved ")), said


def test_the_report_is_told_as_its_page_shows(double, token, tmp_path):
    ((command, expected),) = transcript(blocks("proxy/report/README.md")[0])
    with Recourse(tmp_path / "observing", observed(double.url)) as running:
        double.script("POST", f"/orders/{token}2", ["read", "execute", "rst"], times=1)
        for name, cart, note, trace in (
            ("1", 1, "", TRACE), ("1", 1, "", TRACE), ("1", 1, "", TRACE),
            ("1", 1, "other words", TRACE), ("2", 2, "", TRACE), ("2", 2, "", OTHER),
        ):  # fmt: skip
            order(running, token + name, trace, cart, note)
        rawhttp.call(running.port, "POST", f"/mail/{token}", body={"to": "a"})
        ends = ("SUCCEEDED", "UNCERTAIN")
        wait_until(lambda: sum(event["phase"] in ends for event in running.events()) == 7)
        env = as_operator(running, running.token_path)
        (said,) = shell(tmp_path, [command], env, is_terminal=True)
    # How long it took is another time.
    assert shows(re.sub(r"[\d.]+ m?s\b", "…", expected), said), said
