"""Two groups in one database, with one install secret, and agents of the same names: they share
nothing."""

import json

import pytest

from support import plans, rawhttp
from support.postgres import Postgres
from support.recourse import Recourse, run_cli
from support.waiting import wait_until
from test_callers import Keys, by_token
from test_fleet import Pods
from test_flow_commands import Shop, trace_of

GROUPS = ("shop/checkout", "shop/returns")


class Agent:
    """Whose token names it, wherever it calls."""

    def __init__(self, directory):
        self.issuer = Keys(directory / "issuer")
        self.bearer = self.issuer.bearer(email="planner@x.test")


class Named(Pods):
    """Pods that know the agent by its token; and the backend takes keys."""

    def __init__(self, directory, double, url, names, group, agent):  # fmt: skip
        self.agent = agent
        super().__init__(directory, double, url, names, group)
        for pod in self.all.values():
            pod.bearer = agent.bearer

    def policy(self, double, place):
        policy = Pods.policy(double, place).replace(
            "connect_timeout: 30s", "connect_timeout: 30s, key_header: Idempotency-Key")
        return policy + by_token(self.agent.issuer)


class Groups:
    """A pod of each group: `a` and `b`."""

    def __init__(self, directory, double, url, agent):
        self.double, self.url, self.agent = double, url, agent
        self.pods = []
        for group in GROUPS:
            home = directory / group.partition("/")[2]
            home.mkdir()
            pods = Named(home, double, url, "a", group, agent)
            # A key of their own would hide what it seals, and nothing else.
            if self.pods:
                (home / "ledger.key").write_text((directory / "checkout/ledger.key").read_text())
            self.pods.append(pods)
        self.a, self.b = (pods.a for pods in self.pods)

    def __enter__(self):
        for pod in (self.a, self.b):
            pod.start()
        return self

    def __exit__(self, *exc):
        for pod in (self.a, self.b):
            pod.kill()


@pytest.fixture(scope="module", name="postgres")
def started():
    with Postgres(settings=plans.SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    return Agent(tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def groups(double, postgres, agent, tmp_path_factory):
    url = postgres.ledger()
    with Groups(tmp_path_factory.mktemp("groups"), double, url, agent) as running:
        yield running
        for pod in (running.a, running.b):
            assert pod.running(), pod.stderr()[-4000:]
            assert pod.verify()["ok"]
        assert run_cli("ledger", "verify", "--ledger", url).returncode == 0


def send(pod, method, path, token, status=201, **fields):
    headers = {**rawhttp.traced(trace_of(token)), "Authorization": pod.bearer, **fields}
    answer = rawhttp.call(pod.port, method, path, body={"client_ref": token}, headers=headers)
    assert answer.status == status, answer
    return answer


def keys_sent(double, path):
    return [dict(line["headers"]).get("Idempotency-Key") for line in double.requests(path)]


@pytest.mark.parametrize("named", [False, True], ids=["by arguments", "by the agent's key"])
def test_the_same_call_of_agents_of_one_name_is_each_groups_own(groups, double, token, named):
    path = f"/notes/{token}"
    fields = {"Recourse-Intent": f"key-{token}"} if named else {}
    first = send(groups.a, "POST", path, token, **fields)
    second = send(groups.b, "POST", path, token, **fields)
    assert not second.replayed and second.body != first.body
    assert len(double.effects(path)) == 2
    assert len(set(keys_sent(double, path))) == 2, "the backend would take them for one"
    for pod, told in ((groups.a, first), (groups.b, second)):
        again = send(pod, "POST", path, token, **fields)
        assert again.replayed and again.body == told.body
        assert [event["caller"] for event in pod.events_for(path)] == ["jwt:planner@x.test"] * 2
    assert len(double.effects(path)) == 2


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_write_of_one_group_ends_no_answer_of_the_other(groups, double, token, method):
    path = f"/switch/{token}"
    first = send(groups.a, method, path, token)
    send(groups.b, method, path, f"{token}off")
    again = send(groups.a, method, path, token)
    assert again.replayed and again.body == first.body and len(double.effects(path)) == 2


def test_a_flow_of_the_same_name_is_undone_by_its_own_group_alone(groups, double, token):
    trace = trace_of(token)
    for pod in (groups.a, groups.b):
        for kind in ("orders", "payments"):
            send(pod, "POST", f"/{kind}/{token}", token)
    shops = Shop(groups.a, double), Shop(groups.b, double)
    numbers = {shop.flow(trace)["number"] for shop in shops}
    assert len(numbers) == 2
    for shop in shops:
        assert [step["tool"] for step in shop.flow(trace)["steps"]] == [
            "orders.create", "payments.charge"]
    shops[0].flows("cancel", trace, "--reason", "the agent went astray")
    shops[0].await_flow(trace, "UNDONE")
    undone = [one for one in shops[0].effects(token) if one in ("POST refunds", "DELETE orders")]
    assert undone == ["POST refunds", "DELETE orders"]
    assert shops[1].flow(trace)["phase"] == "OPEN"
    # It goes on, and is undone in its turn.
    send(groups.b, "POST", f"/orders/{token}-more", token)
    send(groups.a, "POST", f"/orders/{token}-more", token, status=409)
    shops[1].flows("cancel", trace, "--reason", "this one too")
    shops[1].await_flow(trace, "UNDONE")
    assert shops[1].effects(token).count("DELETE orders") == 3
    assert shops[1].effects(token).count("POST refunds") == 2
    assert shops[1].effects(f"{token}-more") == ["POST orders", "DELETE orders"]


def test_what_waits_in_one_group_is_neither_seen_nor_decided_in_the_other(groups, double, token):
    path = f"/mail/{token}"
    asked = send(groups.a, "POST", path, token, status=202).json()
    operation = asked["operation"]
    digest = groups.a.shown(operation)["digest"]
    assert operation not in [one["operation"] for one in groups.b.waiting()]
    for method, target, body in (
        ("GET", "", None),
        ("POST", "/approve", {"digest": digest, "reason": "seen"}),
        ("POST", "/reject", {"reason": "no"}),
    ):
        status, told = groups.b.ask(method, f"/approvals/{operation}{target}", "ann", body)
        assert status == 404, (target, told)
    poll = asked["poll"][asked["poll"].index("/.recourse"):]
    told = rawhttp.call(groups.b.port, "GET", poll, headers={"Authorization": groups.b.bearer})
    assert told.status == 404, told
    assert groups.a.shown(operation)["digest"] == digest and double.effects(path) == []
    assert groups.a.approve(operation)[0] == 200
    wait_until(lambda: len(double.effects(path)) == 1)


def test_by_its_number_nothing_of_another_group_is_found_or_moved(groups, double, token):
    trace, path = trace_of(token), f"/orders/{token}"
    written = send(groups.a, "POST", path, token)
    event = written.header("Recourse-Event")
    number = Shop(groups.a, double).flow(trace)["number"]
    for target in (f"/events/{event}", f"/operations/{event}", f"/flows/{number}"):
        mine, others = (pod.ask("GET", target)[0] for pod in (groups.a, groups.b))
        assert (mine, others) in ((200, 404), (404, 404), (405, 405)), target
    for pod, code in ((groups.b, False), (groups.a, True)):
        assert (pod.cli("flows", "show", number).returncode == 0) is code
        assert (pod.cli("events", "show", event).returncode == 0) is code
        listed = pod.cli("operations", "list", "--json").stdout
        assert (path in listed) is code
    for words in (("flows", "cancel", number), ("flows", "commit", number)):
        assert groups.b.cli(*words, "--reason", "not mine").returncode != 0
    flow = Shop(groups.a, double).flow(trace)
    assert flow["phase"] == "OPEN" and len(double.effects(path)) == 1


def test_an_unknown_call_of_one_group_is_not_settled_in_the_other(groups, double, token):
    path = f"/notes/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    lost = send(groups.a, "POST", path, token, status=502)
    event = lost.header("Recourse-Event")
    order = ("operations", "settle", event, "--happened", "--reason", "seen")
    assert groups.b.cli(*order).returncode != 0
    assert send(groups.b, "POST", path, token).status == 201, "their own call"
    phases = [one["phase"] for one in groups.a.events_for(path)]
    assert phases[-1] == "UNCERTAIN", phases


def test_the_keeper_of_one_group_leaves_the_others_keys(double, postgres, agent, tmp_path, token):
    url = postgres.ledger()
    with Groups(tmp_path, double, url, agent) as groups:
        for pod in (groups.a, groups.b):
            send(pod, "PUT", f"/switch/{token}", token)
            send(pod, "POST", f"/mails/{token}", token)
        before = everything(postgres, url, "grp")
    # As if nobody had been there for long.
    postgres.sql(url, "UPDATE event SET at = at - interval '30 days';"
                      "UPDATE operation SET at = at - interval '300 days',"
                      " wall_ms = wall_ms - 30 * 86400000::bigint, flags = 4;"
                      "UPDATE flow SET at = at - interval '300 days';"
                      "UPDATE work SET due_at = now() WHERE kind = 4")  # fmt: skip
    with Named(tmp_path / "returns", double, url, ["later"], GROUPS[1], agent) as pods:
        send(pods.later, "PUT", f"/switch/{token}-young", f"{token}young")
        wait_until(lambda: everything(postgres, url, "grp")["operation"].get(GROUPS[1]) == 1,
                   lambda: everything(postgres, url, "grp"))  # fmt: skip
    after = everything(postgres, url, "grp")
    for table in ("operation", "intent", "flow", "event"):
        assert after[table][GROUPS[0]] == before[table][GROUPS[0]], table


def everything(postgres, url, column):
    """How many rows of each table each group has."""
    counts = {}
    for table in ("operation", "intent", "flow", "event"):
        rows = postgres.sql(url, f"SELECT {column}, count(*) FROM {table} GROUP BY 1").splitlines()
        counts[table] = {row.split("|")[0]: int(row.split("|")[1]) for row in rows}
    return counts


def test_a_group_of_an_earlier_version_and_a_volume_keep_the_keys_that_they_had(
    double, postgres, agent, tmp_path, token
):
    url = postgres.ledger()
    pods = Named(tmp_path, double, url, "a", GROUPS[0], agent)
    with pods:
        send(pods.a, "POST", f"/notes/{token}", token)
    # What the migration says of a group that was there before.
    postgres.sql(url, "UPDATE secret SET is_shared = true")
    with pods:
        send(pods.a, "POST", f"/notes/{token}", token)
    policy = "".join(line for line in pods.a.policy_path.read_text().splitlines(keepends=True)
                     if not line.startswith("ledger:"))
    with Recourse(tmp_path / "volume", policy, pods.secrets[:2]) as volume:
        volume.bearer = agent.bearer
        send(volume, "POST", f"/notes/{token}", token)
    own, before, of_volume = keys_sent(double, f"/notes/{token}")
    assert before == of_volume != own


# Tables as the version before made them, with what is in them.
OLDER = """
DROP TABLE secret;
ALTER TABLE operation DROP CONSTRAINT operation_pkey, ADD PRIMARY KEY (key);
ALTER TABLE intent DROP CONSTRAINT intent_pkey, ADD PRIMARY KEY (intent);
ALTER TABLE flow DROP CONSTRAINT flow_pkey, ADD PRIMARY KEY (flow);
ALTER TABLE work DROP CONSTRAINT work_pkey, ADD PRIMARY KEY (kind, stream, number);
ALTER TABLE stream DROP COLUMN tables;
UPDATE operation SET grp = ''; UPDATE intent SET grp = '';
UPDATE ledger SET schema_version = 3, min_writer = 1;
"""


def test_what_was_remembered_before_the_tables_told_groups_apart_is_known_after(
    double, postgres, agent, tmp_path, token
):
    url, path = postgres.database(), f"/notes/{token}"
    assert run_cli("ledger", "migrate", "--ledger", url).returncode == 0
    postgres.sql(url, f"INSERT INTO secret VALUES ('{GROUPS[0]}', true)")
    pods = Named(tmp_path, double, url, "ab", GROUPS[0], agent)
    with pods:
        first = send(pods.a, "POST", path, token)
        asked = send(pods.a, "POST", f"/mail/{token}", token, status=202).json()["operation"]
        postgres.sql(url, OLDER)
        migrated = run_cli("ledger", "migrate", "--ledger", url)
        assert "brought the tables from version 3 to 6" in migrated.stdout, migrated
        # A process of before would be ended; this one goes on under another stream.
        again = send(pods.b, "POST", path, token)
        assert again.replayed and again.body == first.body
    with pods:
        for pod in (pods.a, pods.b):
            again = send(pod, "POST", path, token)
            assert again.replayed and again.body == first.body
        assert Shop(pods.a, double).flow(trace_of(token))["steps"]
        assert pods.b.approve(asked)[0] == 200
        wait_until(lambda: len(double.effects(f"/mail/{token}")) == 1)
    assert len(double.effects(path)) == 1
    assert run_cli("ledger", "verify", "--ledger", url, *pods.secrets[2:]).returncode == 0


TABLES = ("ledger", "stream", "operation", "intent", "flow", "event", "work", "secret")


def test_a_restore_is_accepted_by_each_group_for_itself(double, postgres, agent, tmp_path, token):
    url = postgres.ledger()
    accept = lambda *words: run_cli(
        "ledger", "accept", "--ledger", url, "--reason", "looked", *words
    )  # fmt: skip
    each = lambda sql: postgres.sql(url, "; ".join(sql.format(table) for table in TABLES))
    with Groups(tmp_path, double, url, agent) as groups:
        both = (groups.a, groups.b)
        for pod in both:
            send(pod, "POST", f"/notes/{token}", token)
        each("CREATE TABLE was_{0} AS SELECT * FROM {0}")
        for pod in both:
            send(pod, "POST", f"/notes/{token}-lost", token)
        each("DELETE FROM {0}; INSERT INTO {0} SELECT * FROM was_{0}")
        send(groups.a, "POST", f"/notes/{token}-a", token, status=503)
        for pod in both:
            send(pod, "POST", f"/notes/{token}-b", token, status=503)
        assert (whose := accept()).returncode == 2 and "--all-groups" in whose.stderr, whose
        assert accept("--group", GROUPS[0], "--all-groups").returncode == 2
        assert (other := accept("--group", "shop/other")).returncode != 0, other
        done = accept("--group", GROUPS[0])
        assert done.returncode == 0 and "other groups have not" in done.stdout, done
        for path in ("c", "d"):
            send(groups.a, "POST", f"/notes/{token}-{path}", token)
            send(groups.b, "POST", f"/notes/{token}-{path}", token, status=503)
            for pod in both:
                pod.kill()
                pod.start()
        assert "restored from a backup" not in groups.a.cli("status").stdout
        assert "restored from a backup" in groups.b.cli("status").stdout
        own = groups.b.cli("ledger", "accept", "--reason", "looked too")
        assert own.returncode == 0, own
        send(groups.b, "POST", f"/notes/{token}-e", token)
        assert "nothing to accept" in accept("--all-groups").stdout
        assert not json.loads(run_cli("ledger", "status", "--ledger", url).stdout)["restored"]
    assert double.effects(f"/notes/{token}-a") == []


def test_all_of_it_is_found_by_indexes(groups, postgres, token):
    send(groups.a, "POST", f"/notes/{token}", token)
    groups.a.cli("status")
    log = postgres.said()
    assert json.dumps(plans.scans(plans.plans_in(log))) == "[]"
