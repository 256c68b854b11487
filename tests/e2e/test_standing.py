"""An answer from the log is given only while what it says still stands."""

import functools
import itertools
import secrets
import threading

import pytest

from support import flows, rawhttp
from support.policies import standard
from support.recourse import Recourse
from support.waiting import wait_until

TRACE, OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
EXCUSE = "undo: none, reason: a row of a test is never undone"
TOOLS = f"""\
  docs.make: {{ match: "POST shop /docs/{{token}}", effect: write, {EXCUSE} }}
  docs.drop: {{ match: "DELETE shop /docs/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  docs.put: {{ match: "PUT shop /docs/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  docs.patch: {{ match: "PATCH shop /docs/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  docs.act: {{ match: "POST shop /docs/{{token}}/{{id}}/{{verb}}", effect: write, {EXCUSE} }}
  issues.make:
    match: POST shop /issues/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo:
      request: "PATCH /issues/{{path.token}}/{{external_ref}}"
      json: {{ state: closed, state_reason: not_planned }}
      repeatable: true
  issues.edit: {{ match: "PATCH shop /issues/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  issues.drop: {{ match: "DELETE shop /issues/{{token}}/{{id}}", effect: write, {EXCUSE} }}
  level.set:
    match: POST shop /level/{{token}}
    effect: write
    superseded_by: [ others, level.reset ]
    {EXCUSE.replace(", ", chr(10) + "    ", 1)}
  level.reset: {{ match: "POST shop /levels/{{token}}/reset", effect: write, {EXCUSE} }}
"""


@pytest.fixture(scope="module")
def proxy(double, tmp_path_factory):
    directory = tmp_path_factory.mktemp("recourse")
    with Recourse(directory, standard(double, extra_tools=TOOLS)) as running:
        yield running


def send(proxy, method, path, body=b"", trace=TRACE, **fields):
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    headers.update(rawhttp.traced(trace) if trace else {})
    return rawhttp.call(proxy.port, method, path, headers=headers, body=body)


def problem(answer):
    return answer.json()["type"].rsplit("/", 1)[1]


def lose(proxy, double, method, path, body, trace=TRACE):
    """Makes the call, and leaves before it is answered."""
    double.script(method, path, ["read", {"gate": path}, "execute", "answer"], 1)
    count, received = len(double.effects(path)), len(double.requests(path, method))
    fields = {"Content-Type": "application/json", **(rawhttp.traced(trace) if trace else {})}
    with rawhttp.Connection(proxy.port) as gone:
        gone.send(rawhttp.render(method, path, "shop.test", fields, body))
        double.await_requests(method, path, received + 1)
    double.open_gate(path)
    double.await_effects(path, count + 1)
    wait_until(lambda: proxy.events_for(path)[-1]["phase"] == "SUCCEEDED")


def test_what_was_deleted_is_made_anew(proxy, double, token):
    path = f"/docs/{token}"
    made = send(proxy, "POST", path, {"a": 1})
    assert send(proxy, "POST", path, {"a": 1}).replayed
    place = f"{path}/{made.json()['id']}"
    assert send(proxy, "DELETE", place).status < 300
    again = send(proxy, "POST", path, {"a": 1})
    assert again.status == 201 and not again.replayed and again.body != made.body
    assert send(proxy, "POST", path, {"a": 1}).body == again.body
    assert len(double.effects(path)) == 2


def test_what_a_probe_found_can_be_deleted(proxy, double, token):
    path, body = f"/probed/{token}", {"client_ref": token}
    double.script("POST", path, ["read", "execute", "rst"], 1)
    assert send(proxy, "POST", path, body).outcome == "unknown"
    made = proxy.await_phase(path, "SUCCEEDED")["external_ref"]
    assert send(proxy, "POST", path, body).outcome == "executed"
    assert send(proxy, "DELETE", f"{path}/{made}").status < 300
    again = send(proxy, "POST", path, body)
    assert again.status == 201 and again.json()["id"] != made
    assert send(proxy, "POST", path, body).body == again.body
    assert len(double.effects(path)) == 2


@pytest.mark.parametrize("ref", [True, False])
def test_what_a_human_said_had_happened_can_be_deleted(proxy, double, token, ref):
    path = f"/docs/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    lost = send(proxy, "POST", path, {"a": 1})
    assert lost.outcome == "unknown"
    named = ["--external-ref", "x7"] if ref else []
    settled = proxy.cli(
        "operations", "settle", str(proxy.events_for(path)[-1]["operation"]),
        "--as", "happened", "--reason", "seen there", *named,
    )  # fmt: skip
    assert settled.returncode == 0, settled
    assert send(proxy, "POST", path, {"a": 1}).outcome == "executed"
    assert send(proxy, "DELETE", f"{path}/x7").status < 300
    again = send(proxy, "POST", path, {"a": 1})
    assert (again.status == 201) == ref, again
    assert len(double.effects(path)) == 1 + ref


def test_another_one_that_was_made_there_changes_nothing(proxy, double, token):
    path = f"/docs/{token}"
    first = send(proxy, "POST", path, {"a": 1})
    assert not send(proxy, "POST", path, {"a": 2}).replayed
    assert send(proxy, "POST", path, {"a": 1}).body == first.body
    assert len(double.effects(path)) == 2


PAIRS = [
    ("close", "reopen"),
    ("star", "unstar"),
    ("lock", "unlock"),
    ("mark-read", "mark-unread"),
    ("power_on", "power_off"),
    ("check", "uncheck"),
]


@pytest.mark.parametrize("verb, back", PAIRS)
def test_an_opposite_takes_it_back(proxy, double, token, verb, back):
    path = f"/docs/{token}/7"
    act = lambda word: send(proxy, "POST", f"{path}/{word}", {"by": "me"})
    for word in (verb, back, verb, back):
        assert not act(word).replayed
    assert act(back).replayed
    # Of another thing, or with other arguments, it is no opposite.
    assert not send(proxy, "POST", f"/docs/{token}/8/{verb}", {"by": "me"}).replayed
    assert not send(proxy, "POST", f"{path}/{verb}", {"by": "you"}).replayed
    assert act(back).replayed
    assert len(double.effects(f"{path}/{verb}")) == 3


def test_whose_answer_was_lost_is_told_and_not_made_again(proxy, double, token):
    path = f"/docs/{token}/7/lock"
    lose(proxy, double, "POST", path, b'{"by": "me"}')
    assert not send(proxy, "POST", f"/docs/{token}/7/unlock", {"by": "me"}).replayed
    told = send(proxy, "POST", path, {"by": "me"})
    assert (told.status, problem(told)) == (409, "superseded")
    assert told.outcome == told.json()["outcome"] == "executed"
    assert len(double.effects(path)) == 1
    # Named by the agent it is another call, which is never superseded.
    named = [send(proxy, "POST", path, {"by": "me"}, Recourse_Intent=token) for _ in range(2)]
    assert named[1].replayed
    assert not send(proxy, "POST", f"/docs/{token}/7/unlock", {"by": "me"}, OTHER_TRACE).replayed
    assert send(proxy, "POST", path, {"by": "me"}, Recourse_Intent=token).replayed


def test_members_that_a_later_patch_gives_other_values(proxy, double, token):
    path = f"/docs/{token}/7"
    patch = lambda **members: send(proxy, "PATCH", path, members)
    assert not patch(a=1).replayed and not patch(b=2).replayed
    assert patch(a=1).replayed
    assert not patch(b=3, a=1).replayed and patch(a=1).replayed
    assert not patch(a=2, c=1).replayed
    assert not patch(a=1).replayed and patch(b=3, c=1).status < 300
    assert not send(proxy, "PUT", path, {"a": 1}).replayed
    assert not patch(a=1).replayed
    assert len(double.effects(path)) == 8


@pytest.mark.parametrize("lost", [["read", "execute", "rst"], ["read", "rst"]])
@pytest.mark.parametrize("word", ["happened", "absent"])
def test_what_may_have_been_deleted_is_told_as_such_until_that_is_known(
    proxy, double, token, lost, word
):
    path = f"/docs/{token}"
    made = send(proxy, "POST", path, {"a": 1})
    place = f"{path}/{made.json()['id']}"
    double.script("DELETE", place, lost, 1)
    assert send(proxy, "DELETE", place).outcome == "unknown"
    refused(send(proxy, "POST", path, {"a": 1}))
    assert len(double.effects(path)) == 1
    operation = proxy.events_for(place)[-1]["operation"]
    settled = proxy.cli("operations", "settle", str(operation), "--as", word, "--reason", "seen")
    assert settled.returncode == 0, settled
    again = send(proxy, "POST", path, {"a": 1})
    assert again.replayed == (word == "absent") and again.status == 201
    assert send(proxy, "POST", path, {"a": 1}).body == again.body
    assert len(double.effects(path)) == (1 if word == "absent" else 2)


def refused(answer):
    assert (answer.status, problem(answer), answer.outcome) == (409, "superseded", "executed")


CLOSED = {"state": "closed", "state_reason": "not_planned"}


def test_an_edit_is_not_the_undo_that_is_made_at_the_same_place(proxy, double, token):
    path, body = f"/issues/{token}", {"title": "one"}
    made = send(proxy, "POST", path, body)
    place = f"{path}/{made.json()['id']}"
    assert send(proxy, "PATCH", place, {"title": "two"}).status < 300
    assert send(proxy, "POST", path, body).body == made.body
    # It may have closed it.
    assert send(proxy, "PATCH", place, {"state": "closed"}).status < 300
    refused(send(proxy, "POST", path, body))
    assert len(double.effects(path)) == 1
    assert send(proxy, "PATCH", place, dict(reversed(CLOSED.items()))).status < 300
    assert send(proxy, "PATCH", place, {"title": "three"}).status < 300
    again = send(proxy, "POST", path, body)
    assert again.status == 201 and not again.replayed and again.body != made.body
    assert send(proxy, "POST", path, body).body == again.body
    # What was opened again since is not undone.
    place = f"{path}/{again.json()['id']}"
    assert send(proxy, "PATCH", place, CLOSED).status < 300
    assert send(proxy, "PATCH", place, {"state": "open"}).status < 300
    refused(send(proxy, "POST", path, body))
    assert len(double.effects(path)) == 2


def cancel(proxy, trace):
    assert proxy.cli("flows", "cancel", trace, "--reason", "astray").returncode == 0
    wait_until(lambda: proxy.admin("GET", f"/flows/{trace}")["phase"] in ("UNDONE", "PARKED"))


EDITS = [
    ({"title": "two"}, True),
    ({"state": "closed"}, True),
    ({**CLOSED, "title": "two"}, True),
    (CLOSED, False),
]


@pytest.mark.parametrize("edit, is_undone", EDITS)
def test_a_flow_undoes_what_was_only_edited(proxy, double, token, edit, is_undone):
    path, trace = f"/issues/{token}", secrets.token_hex(16)
    made = send(proxy, "POST", path, {"title": "one"}, trace)
    place = f"{path}/{made.json()['id']}"
    assert send(proxy, "PATCH", place, edit, trace).status < 300
    before = len(double.requests(place, "PATCH"))
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.requests(place, "PATCH")) == before + is_undone


def test_another_tenants_delete_of_the_same_name_ends_nothing(proxy, double, token):
    path = f"/docs/{token}"
    made = send(proxy, "POST", path, {"a": 1}, X_Tenant="a")
    place = f"{path}/{made.json()['id']}"
    for tenant in ("b", None):
        fields = {"X_Tenant": tenant} if tenant else {}
        assert send(proxy, "DELETE", place, **fields).status < 300
        assert send(proxy, "POST", path, {"a": 1}, X_Tenant="a").body == made.body
    assert send(proxy, "DELETE", place, X_Tenant="a").status < 300
    again = send(proxy, "POST", path, {"a": 1}, X_Tenant="a")
    assert not again.replayed and again.status == 201 and len(double.effects(path)) == 2


def test_another_users_delete_leaves_a_doubt(proxy, double, token):
    path, trace = f"/issues/{token}", secrets.token_hex(16)
    one, other = {"Authorization": "Bearer one"}, {"Authorization": "Bearer other"}
    made = send(proxy, "POST", path, {"a": 1}, trace, **one)
    place = f"{path}/{made.json()['id']}"
    assert send(proxy, "DELETE", place, b"", OTHER_TRACE, **other).status < 300
    refused(send(proxy, "POST", path, {"a": 1}, trace, **one))
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.effects(path)) == len(double.requests(place, "PATCH")) == 1


ACCEPTED = ["read", {"send": "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"}]
DOUBTFUL = [
    ("?session=12", b"", {}, None),
    ("", {"only": ["drafts"]}, {}, None),
    ("?dry_run=true", b"", {}, None),
    ("?force=1", b"", {}, None),
    ("", b"", {"X_Dry_Run": "1"}, None),
    ("", b"", {"Prefer": "dry-run"}, None),
    ("", b"", {}, ACCEPTED),
]


@pytest.mark.parametrize("query, body, fields, steps", DOUBTFUL)
def test_a_delete_that_need_not_have_removed_it_leaves_a_doubt(
    proxy, double, token, query, body, fields, steps
):
    path, trace = f"/issues/{token}", secrets.token_hex(16)
    made = send(proxy, "POST", path, {"a": 1}, trace)
    place = f"{path}/{made.json()['id']}"
    if steps:
        double.script("DELETE", place, steps, 1)
    assert send(proxy, "DELETE", place + query, body, trace, **fields).status < 300
    refused(send(proxy, "POST", path, {"a": 1}, trace))
    cancel(proxy, trace)
    double.await_recorded()
    assert len(double.effects(path)) == len(double.requests(place, "PATCH")) == 1


def test_a_delete_that_was_refused_took_nothing_away(proxy, double, token):
    path = f"/docs/{token}"
    made = send(proxy, "POST", path, {"a": 1})
    place = f"{path}/{made.json()['id']}"
    refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    double.script("DELETE", place, ["read", {"send": refusal}], 1)
    assert send(proxy, "DELETE", place).status == 403
    assert send(proxy, "POST", path, {"a": 1}).body == made.body
    assert len(double.effects(path)) == 1


SPELLINGS = ["{place}?", "{place}?api_key=x", "/docs/{token}/%{first:02X}{rest}"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_place_is_one_however_it_is_spelled(proxy, double, token, spelling):
    path = f"/docs/{token}"
    made = send(proxy, "POST", path, {"a": 1}).json()["id"]
    place = spelling.format(
        place=f"{path}/{made}", token=token, first=ord(made[0]), rest=made[1:]
    )  # fmt: skip
    assert send(proxy, "DELETE", place).status < 300
    assert not send(proxy, "POST", path, {"a": 1}).replayed


@pytest.mark.parametrize("sign", ":@!$&'()*+,;=")
def test_a_sign_that_need_not_be_escaped_is_one_with_its_escape(proxy, double, token, sign):
    plain, escaped = f"/docs/{token}/a{sign}b", f"/docs/{token}/a%{ord(sign):02X}b"
    for path, value in ((plain, 1), (escaped, 2), (plain, 1), (escaped, 2)):
        assert not send(proxy, "PUT", path, {"a": value}).replayed, path
    assert send(proxy, "PUT", escaped, {"a": 2}).replayed


PLAIN, QUERY = "", "?notify=false"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("first, second", [(PLAIN, QUERY), (QUERY, PLAIN), (QUERY, "?_=2")])
def test_whatever_its_query_a_write_changes_what_is_there(
    proxy, double, token, method, first, second
):
    path = f"/docs/{token}/7"
    assert send(proxy, method, path + first, {"a": 1}).status < 300
    assert send(proxy, method, path + first, {"a": 1}).replayed
    assert send(proxy, method, path + second, {"a": 2}).status < 300
    again = send(proxy, method, path + first, {"a": 1})
    assert again.status == 409 if method == "PATCH" else not again.replayed, again


def test_patches_before_one_with_a_query_are_not_forgotten(proxy, double, token):
    path = f"/docs/{token}/7"
    for query, change in ((PLAIN, {"a": 1}), (PLAIN, {"a": 2}), (QUERY, {"b": 1})):
        assert not send(proxy, "PATCH", path + query, change).replayed
    assert not send(proxy, "PATCH", path, {"a": 1}).replayed


@pytest.mark.parametrize("method", ["MOVE", "COPY"])
def test_what_is_moved_onto_a_place_ends_what_was_said_of_it(proxy, double, token, method):
    path = f"/docs/{token}"
    made = send(proxy, "POST", path, {"a": 1})
    place, source = f"{path}/{made.json()['id']}", f"{path}/source"
    assert all(send(proxy, "PATCH", at, {"b": 1}).status < 300 for at in (place, source))
    there = f"http://shop.test{place}"
    transfer = functools.partial(send, proxy, method, source, b"", Destination=there)
    assert not transfer().replayed and transfer().replayed
    again = send(proxy, "POST", path, {"a": 1})
    assert again.status == 201 and not again.replayed and again.body != made.body
    assert send(proxy, "PATCH", source, {"b": 1}).replayed == (method == "COPY")
    assert not send(proxy, "PATCH", place, {"b": 1}).replayed
    assert not transfer().replayed  # something else was written there


OTHER_PATCHES = [
    ("application/json-patch+json", '[{{"op": "replace", "path": "/a", "value": {}}}]'),
    ("application/x-www-form-urlencoded", "a={}"),
    ("text/plain", "{}"),
]


@pytest.mark.parametrize("media, body", OTHER_PATCHES)
def test_a_patch_that_lists_no_members_may_give_one_another_value(
    proxy, double, token, media, body
):
    def patch(value):
        return send(proxy, "PATCH", f"/docs/{token}/7", body.format(value).encode(),
                    Content_Type=media)  # fmt: skip

    for value in (1, 2, 1):
        assert not patch(value).replayed
    assert patch(1).replayed


def test_where_one_watches_what_was_taken_on_is_not_what_was_made(proxy, double, token):
    path = f"/docs/{token}"
    taken = f"HTTP/1.1 202 Accepted\r\nLocation: {path}/watch\r\nContent-Length: 0\r\n\r\n"
    double.script("POST", path, ["read", "execute", {"send": taken}], 1)
    assert send(proxy, "POST", path, {"a": 1}).status == 202
    assert send(proxy, "DELETE", f"{path}/watch").status < 300
    assert send(proxy, "POST", path, {"a": 1}).replayed
    assert len(double.effects(path)) == 1


def test_it_is_known_after_a_kill(double, token, tmp_path):
    path = f"/docs/{token}"
    with Recourse(tmp_path, standard(double, extra_tools=TOOLS)) as running:
        made = send(running, "POST", path, {"a": 1})
        patch = lambda value: send(running, "PATCH", f"{path}/7", {"a": value})
        for value in (1, 2):
            assert not patch(value).replayed
        assert send(running, "POST", f"{path}/7/close").status < 300
        assert send(running, "POST", f"{path}/7/reopen").status < 300
        assert send(running, "DELETE", f"{path}/{made.json()['id']}").status < 300
        running.kill()
        running.start()
        assert patch(2).replayed and send(running, "POST", f"{path}/7/reopen").replayed
        for method, place, body in (
            ("POST", path, {"a": 1}),
            ("PATCH", f"{path}/7", {"a": 1}),
            ("POST", f"{path}/7/close", b""),
        ):
            answer = send(running, method, place, body)
            # That its answer was had may not have reached the disk: then it is told.
            assert not answer.replayed, (method, place)
            assert answer.status < 300 or problem(answer) == "superseded"


def test_the_policy_says_what_ends_an_answer(proxy, double, token):
    path = f"/level/{token}"
    level = lambda value: send(proxy, "POST", path, {"level": value})
    assert not level(1).replayed and level(1).replayed
    assert not level(2).replayed and not level(1).replayed and level(1).replayed
    assert not send(proxy, "POST", f"/levels/{token}-other/reset").replayed
    assert level(1).replayed
    assert not send(proxy, "POST", f"/levels/{token}/reset").replayed
    assert not level(1).replayed


@pytest.mark.parametrize("traced", [False, True], ids=["without a trace", "each its own trace"])
def test_of_equal_calls_at_once_each_one_that_was_lost_is_known(proxy, double, token, traced):
    """Without common trace, session and name only a retry is the same call, whichever it is of."""
    path, body = f"/plain/{token}", b'{"a": 1}'
    traces = itertools.count(int.from_bytes(token.encode()) << 64)

    def fields_of_next():
        fields = {"Content-Type": "application/json"}
        return {**fields, **(rawhttp.traced(f"{next(traces):032x}") if traced else {})}

    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"])
    gone = rawhttp.Connection(proxy.port)
    gone.send(rawhttp.render("POST", path, "shop.test", fields_of_next(), body))
    double.await_requests("POST", path)
    answers = [None] * 3

    def call(n):
        answers[n] = rawhttp.call(proxy.port, "POST", path, headers=fields_of_next(), body=body)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(3)]
    for n, thread in enumerate(threads):
        thread.start()
        double.await_requests("POST", path, 2 + n)
    gone.close()
    double.open_gate(token)
    for thread in threads:
        thread.join()
    double.await_effects(path, 4)
    wait_until(lambda: running_writes(proxy) == 0)
    assert {answer.status for answer in answers} == {201}
    retry = rawhttp.call(proxy.port, "POST", path, headers=fields_of_next(), body=body)
    assert retry.replayed and retry.body not in [answer.body for answer in answers]
    assert len(double.effects(path)) == 4
    # It has its answer now: an equal call is another one.
    again = rawhttp.call(proxy.port, "POST", path, headers=fields_of_next(), body=body)
    assert not again.replayed and len(double.effects(path)) == 5


def running_writes(proxy):
    metrics = proxy.probe("/metrics")[1]
    lines = [line for line in metrics.splitlines() if line.startswith("recourse_writes_in_flight ")]
    return float(lines[0].split()[1])


def test_a_flow_does_not_undo_what_was_deleted_and_says_so(double, token, tmp_path):
    with Recourse(tmp_path, flows.policy(double)) as running:
        shop = flows.Shop(running, double)
        agent = shop.agent(token)
        agent.does("orders", "payments")
        made = agent.effects["orders"]
        assert shop.agent(token).call("orders", made, method="DELETE").status < 300
        agent.breaks()
        agent.await_undone()
        assert agent.undone() == ["orders", "payments"]  # the first one by the agent itself
        assert len(agent.undo_requests("orders")) == 1
        story = running.cli("flows", "show", agent.flow).stdout
        assert "needed no undo" in story, story
