"""The policy packs: every write of each, against a double of its API that behaves as badly as its
documents allow."""

import concurrent.futures
import importlib
import itertools
import json
import pathlib
import secrets
import tempfile
import urllib.parse

import pytest
import yaml
from doubles.base import SAME

from support import rawhttp
from support.mcp_wire import Modern
from support.recourse import ROOT, WAIT_MAX, Recourse, run_cli
from support.waiting import lasts, wait_until

PACKS = sorted((ROOT / "policy/packs").glob("*.yaml"))
FORM = "application/x-www-form-urlencoded"
TOKEN = "Bearer canary-of-the-agent"
DRILL_MAX = 10 * WAIT_MAX
DOUBLES = {path.stem: importlib.import_module(f"doubles.{path.stem.replace('-', '_')}")
           for path in PACKS}  # fmt: skip
CASES = [(pack, case) for pack, module in DOUBLES.items() for case in module.CASES]
numbers = itertools.count(1)


def cases(wanted=lambda case: not case.asks):
    """The cases of all packs that a test is about."""
    chosen = [(pack, case) for pack, case in CASES if wanted(case)]
    return pytest.mark.parametrize(
        "pack, case", chosen, ids=[f"{case.tool}" for _, case in chosen]
    )


class Called:
    """The answer to a call of a tool, with the status that it would have in HTTP."""

    def __init__(self, answer):
        if answer.cut or not answer.body:
            raise rawhttp.Cut("no result", answer.body)
        self.outcome = answer.headers.get("recourse-outcome")
        self.replayed = answer.headers.get("idempotent-replayed") == "true"
        self.status, self.body = answer.status, answer.body
        if answer.status == 200:
            result = answer.final().get("result", {"isError": True})
            self.body = json.dumps(result)
            is_good = not result.get("isError") or self.outcome == "executed"
            self.status = 200 if is_good else 409

    def __repr__(self):
        return f"<{self.status} {self.outcome} {self.body}>"


class Write:
    """One call of a pack's tool in a trace of its own."""

    def __init__(self, world, case):
        self.world, self.case = world, case
        self.trace, self.token = secrets.token_hex(16), f"t{next(numbers)}"
        names = case.given(world.double) if case.given else {}
        self.names = {"id": names} if isinstance(names, str) else names
        self.state = world.double.state()
        self.effects = len(world.double.effects)

    def fill(self, text):
        for name, value in {**self.names, "token": self.token}.items():
            text = text.replace(f'"${name}#"', value).replace(f"${name}", value)
        return text

    def send(self):
        case = self.case
        method, path = case.request.split(" ", 1)
        if method == "tools/call":
            return self.world.call(case, path, json.loads(self.fill(json.dumps(case.body))),
                                   rawhttp.traced(self.trace))  # fmt: skip
        headers = {**rawhttp.traced(self.trace), "Authorization": TOKEN, "User-Agent": "agent"}
        headers |= case.headers
        body = case.body
        if isinstance(body, str):
            if body:
                headers["Content-Type"] = FORM
            body = self.fill(body).encode()
        else:
            body = json.loads(self.fill(json.dumps(body)))
        return rawhttp.call(self.world.recourse.port, method, self.fill(path),
                            host=self.world.host_of(case), headers=headers, body=body)  # fmt: skip

    def succeed(self):
        answer = self.send()
        assert 200 <= answer.status < 300, answer
        assert self.had() == 1, self.world.double.effects[self.effects :]
        return answer

    def had(self):
        """So many effects it had, and what undid it."""
        return len(self.world.double.effects) - self.effects

    def undo(self, phase):
        self.world.cancel(self.trace)
        flow = lambda: self.world.recourse.admin("GET", f"/flows/{self.trace}")  # noqa: E731
        ends = ("UNDONE", "NEEDS_HUMAN")
        wait_until(lambda: flow()["phase"] in ends, lambda: json.dumps(flow()))
        assert flow()["phase"] == phase, json.dumps(flow())

    def is_undone(self):
        double, after = self.world.double, self.effects + 1
        if self.case.undone is None or self.case.parks:
            assert double.effects[after:] == []
        elif self.case.undone == SAME:
            assert double.state() == self.state, double.effects[self.effects :]
        else:
            assert double.effects[after:] == self.case.undone

    def end(self):
        self.undo("NEEDS_HUMAN" if self.case.parks else "UNDONE")
        self.is_undone()


class World:
    """One pack before its double."""

    def __init__(self, pack, directory, change=lambda text: text):
        self.double = DOUBLES[pack].DOUBLE()
        text = (ROOT / f"policy/packs/{pack}.yaml").read_text()
        self.policy = yaml.safe_load(text)
        # Two backends of one pack are one double under two names.
        names = ("127.0.0.1", "localhost")
        for backend, name in zip(self.policy["backends"].values(), names, strict=False):
            assert f'"{backend["url"]}"' in text, backend
            path = urllib.parse.urlsplit(backend["url"]).path
            url = self.double.url.replace("127.0.0.1", name) + path
            text = text.replace(f'"{backend["url"]}"', f'"{url}"')
        # So that no test waits for the rate at which undo requests leave.
        more = "flow_rules: { agents_may: [ cancel ], undos_per_second: 1000 }\n"
        self.recourse = Recourse(directory, change(text) + more, ["--log-level", "debug"])

    def __enter__(self):
        self.recourse.start()
        return self

    def __exit__(self, *_):
        self.double.released.set()
        self.recourse.kill()
        self.double.stop()

    def tool(self, case):
        return self.policy["tools"][case.tool]

    def backend(self, case):
        match = self.tool(case)["match"]
        return self.policy["backends"][(match if isinstance(match, str) else match[0]).split()[1]]

    def host_of(self, case):
        backend = self.backend(case)
        return backend.get("hosts", [urllib.parse.urlsplit(backend["url"]).netloc])[0]

    def call(self, case, tool, arguments, headers):
        """A call of a tool of the pack's MCP server."""
        path = urllib.parse.urlsplit(self.backend(case)["url"]).path
        client = Modern(f"http://127.0.0.1:{self.recourse.port}{path}")
        fields = {**headers, "Authorization": TOKEN, "Host": self.host_of(case)}
        return Called(client.call(tool, arguments, headers=fields))

    def settled_by(self, case):
        tool, backend = self.tool(case), self.backend(case)
        if tool.get("settle", "none") != "none":
            return "human" if case.unfound else "probe"
        at = tool.get("key_at", backend.get("key_at", backend.get("key_header", "none")))
        return "human" if at == "none" else "key"

    def sends_again(self, case):
        """Under the key of an unknown write, also one that a probe settles."""
        tool, backend = self.tool(case), self.backend(case)
        at = tool.get("key_at", backend.get("key_at", backend.get("key_header", "none")))
        return at != "none" and tool.get("key_lives", backend.get("key_lives")) != "0s"

    def asks_state(self, case):
        settle = self.tool(case).get("settle")
        return isinstance(settle, dict) and settle.get("request") == "before"

    def parks_lost(self, case):
        """Whether the undo of what was lost is a human's: a state does not tell who did it."""
        has_undo = self.tool(case)["undo"] != "none"
        return case.lost_parks or (has_undo and self.asks_state(case))

    def cancel(self, trace):
        fields = {**rawhttp.traced(trace), "Authorization": TOKEN, "Recourse-Flow": "cancel"}
        host = next(iter(self.policy["backends"].values()))["hosts"][0]
        answer = rawhttp.call(self.recourse.port, "POST", "/cancel", host=host, headers=fields)
        assert answer.status == 202, answer


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    running = {}

    def world(pack, name="", **words):
        key = pack + name
        if key not in running:
            running[key] = World(pack, tmp_path_factory.mktemp(key), **words).__enter__()
        return running[key]

    yield world
    for one in running.values():
        one.__exit__()


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.stem)
def test_a_pack_is_a_policy_whose_tests_pass(pack):
    checked = run_cli("policy", "check", "--strict", pack)
    assert checked.returncode == 0, checked.stdout
    tested = run_cli("policy", "test", pack)
    assert tested.returncode == 0 and "0 tests" not in tested.stdout, tested.stdout


def test_all_packs_are_one_policy():
    checked = run_cli("policy", "check", ROOT / "policy/packs")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.stem)
def test_every_write_of_a_pack_has_a_case(pack):
    tools = yaml.safe_load(pack.read_text())["tools"]
    writes = {name for name, tool in tools.items() if tool["effect"] == "write"}
    assert writes == {case.tool for case in DOUBLES[pack.stem].CASES}


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.stem)
def test_whatever_is_read_before_a_write_is_put_back_in_a_case(pack):
    tools = yaml.safe_load(pack.read_text())["tools"]
    # What is only read for the settle request goes nowhere.
    back = ("before", "only_if")
    kept = {name for name, tool in tools.items()
            if "before" in tool and any(word in str(tool["undo"]) for word in back)}  # fmt: skip
    cases = [case for case in DOUBLES[pack.stem].CASES if case.undone == SAME and not case.parks]
    assert kept <= {case.tool for case in cases}


@cases()
def test_a_write_is_made_once_and_its_broken_flow_undone(worlds, pack, case):
    write = Write(worlds(pack), case)
    first = write.succeed()
    again = write.send()
    assert (again.status, again.body, again.replayed) == (first.status, first.body, True)
    assert write.had() == 1
    write.end()


@cases()
def test_a_write_whose_answer_was_lost_is_made_once(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    world.double.lose_answers = 1
    lost = write.send()
    assert write.had() == 1 and world.double.lose_answers == 0, lost
    again = write.send()
    assert write.had() == 1, world.double.effects[write.effects :]
    if world.settled_by(case) == "human":
        assert again.status == 409, again
        # How long a flow waits for a probe that never tells is seen where that searches.
        if not (case.unfound and world.asks_state(case)):
            write.undo("NEEDS_HUMAN")
        assert write.had() == 1
        return
    assert 200 <= again.status < 300, again
    if world.parks_lost(case):
        write.undo("NEEDS_HUMAN")
        assert write.had() == 1
    else:
        write.end()


@pytest.mark.parametrize("pack", sorted({pack for pack, case in CASES if not case.asks}))
def test_what_a_kill_left_unknown_is_made_once(pack, tmp_path):
    with World(pack, tmp_path) as world:
        writes = [Write(world, case) for case in DOUBLES[pack].CASES if not case.asks]
        world.double.is_silent = True
        effects = len(world.double.effects)

        def lost(write):
            with pytest.raises((OSError, rawhttp.Cut)):
                pytest.fail(f"{write.case.tool} was answered {write.send()}")

        with concurrent.futures.ThreadPoolExecutor(len(writes)) as pool:
            calls = [pool.submit(lost, write) for write in writes]
            wait_until(lambda: len(world.double.effects) - effects == len(writes)
                       or any(call.done() for call in calls))  # fmt: skip
            world.recourse.kill()
            for call in calls:
                call.result(WAIT_MAX)
        world.double.is_silent = False
        world.double.released.set()
        world.recourse.start()
        for write in writes:
            answer = write.send()
            is_known = world.settled_by(write.case) != "human"
            assert answer.status // 100 == (2 if is_known else 4), (write.case.tool, answer)
        assert len(world.double.effects) - effects == len(writes), world.double.effects[effects:]
        report = world.recourse.verify()
        assert report["ok"], report


@cases()
def test_what_arrives_late_is_made_once(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    world.double.is_late = True
    lost = write.send()
    assert lost.status in (409, 502, 504), lost
    world.double.is_late = False
    if not world.sends_again(case):
        assert write.send().status == 409, "a probe that finds nothing yet proves nothing"
        world.double.arrive()
    if world.settled_by(case) != "human":
        wait_until(lambda: 200 <= write.send().status < 300)
    world.double.arrive()
    assert write.had() == 1, world.double.effects[write.effects :]


@cases()
def test_a_write_that_was_throttled_is_made_by_its_repeat(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    world.double.throttled = 1
    refused = write.send()
    assert refused.status in (200, 400, 403, 429) and write.had() == 0, refused
    assert world.double.throttled == 0
    answer = write.send()
    assert 200 <= answer.status < 300, answer
    assert write.had() == 1


@cases()
def test_a_key_that_was_forgotten_makes_no_second_effect(worlds, pack, case):
    def short(text):
        policy = yaml.safe_load(text)
        for one in [*policy["backends"].values(), *policy["tools"].values()]:
            if one.get("key_at", one.get("key_header", "none")) != "none":
                one["key_lives"] = "1ms"
        return yaml.safe_dump(policy, sort_keys=False, width=10_000)

    world = worlds(pack, "-short", change=short)
    write = Write(world, case)
    world.double.lose_answers = 1
    write.send()
    assert write.had() == 1
    world.double.forget_keys()
    lasts(0.05)  # far longer than the key lives
    answer = write.send()
    assert write.had() == 1, world.double.effects[write.effects :]
    assert answer.status // 100 == (2 if world.settled_by(case) == "probe" else 4), answer


@cases(lambda case: case.asks)
def test_what_needs_a_human_is_not_sent_before(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    answer = write.send()
    assert answer.status == 202 and answer.json()["status"] == "pending_approval", answer
    assert write.had() == 0


@cases(lambda case: case.foreign)
def test_what_somebody_else_changed_is_not_overwritten(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    write.succeed()
    case.foreign(world.double, write.names)
    state, effects = world.double.state(), len(world.double.effects)
    write.undo("NEEDS_HUMAN")
    assert (world.double.state(), len(world.double.effects)) == (state, effects)


@cases(lambda case: case.moved)
def test_what_has_gone_on_is_undone_as_it_is_by_then_or_by_a_human(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    write.succeed()
    case.moved(world.double, write.names)
    write.undo("NEEDS_HUMAN" if case.moved_undo is None else "UNDONE")
    assert world.double.effects[write.effects + 1 :] == (case.moved_undo or [])


# What public sources contradict each other about, or others have seen: both ways are safe.
@pytest.mark.parametrize(
    "pack, tool, switch, value", [("paypal", "paypal.order", "refuses_card_again", True)]
)
def test_a_repeat_that_is_refused_does_not_prove_that_nothing_happened(
    worlds, pack, tool, switch, value
):
    world = worlds(pack)
    write = Write(world, next(case for _, case in CASES if case.tool == tool))
    usual = getattr(world.double, switch)
    setattr(world.double, switch, value)
    try:
        world.double.lose_answers = 1
        write.send()
        again = write.send()
        assert again.status // 100 == 4 and write.had() == 1, again
        write.undo("NEEDS_HUMAN")
        assert write.had() == 1
    finally:
        setattr(world.double, switch, usual)


@pytest.mark.parametrize("answer, phase", [(200, "UNDONE"), (404, "NEEDS_HUMAN")])
def test_a_second_deletion_of_a_customer_is_read_as_it_is_answered(worlds, answer, phase):
    world = worlds("stripe")
    write = Write(world, next(case for _, case in CASES if case.tool == "stripe.customer"))
    write.succeed()
    world.double.deleted_twice, world.double.lose_answers = answer, 1
    write.undo(phase)
    assert world.double.effects[write.effects :] == ["customer", "delete customers"]


def test_after_a_failed_attempt_shopify_gets_a_new_key(worlds):
    world = worlds("shopify")
    world.double.fails_inside = 1
    write = Write(world, next(case for _, case in CASES if case.tool == "shopify.refund.create"))
    assert write.send().outcome == "rejected" and write.had() == 0
    write.succeed()


@cases(lambda case: case.lists)
def test_a_list_that_lags_proves_nothing(worlds, pack, case):
    world = worlds(pack)
    write = Write(world, case)
    world.double.lag_behind(1)
    world.double.lose_answers = 1
    write.send()
    wait_until(lambda: 200 <= write.send().status < 300)
    assert write.had() == 1
    assert world.double.lag == 0


@pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.stem)
def test_the_drill_of_a_pack_keeps_the_promise(pack):
    # Hundreds of ledgers, and no power cut: nothing here is about a disk.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        done = run_cli("drill", "--policy", pack, "--tmp", memory, timeout=DRILL_MAX)
    broken = [part for part in done.stdout.split("\n\n") if "BROKEN" in part]
    assert done.returncode == 0, "\n\n".join(broken) + done.stderr
    assert "promise kept: " in done.stdout and "BROKEN" not in done.stdout


def test_the_agents_token_is_on_every_undo_and_nowhere_else(worlds):
    """Runs last: what the tests above left on disk, in logs and in exports."""
    secret = TOKEN.split()[1]
    for pack in DOUBLES:
        world = worlds(pack)
        sent = [headers for _, _, headers in world.double.requests]
        assert all(headers.get("Authorization", TOKEN) == TOKEN for headers in sent)
        exported = world.recourse.cli("ledger", "export", "--with-answers").stdout
        assert secret not in exported
        assert secret not in str(world.recourse.events())
        assert secret not in world.recourse.stdout() + world.recourse.stderr()
        for file in pathlib.Path(world.recourse.data).rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes(), file
