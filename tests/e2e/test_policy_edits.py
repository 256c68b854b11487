"""A call of unknown outcome stays one call, however the policy names its repeat by then."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import rawhttp
from support.recourse import Recourse
from test_reload import put_in_force

TRACE, OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"

POLICY = """\
version: 1
backends:
  shop: {{ url: "{url}", hosts: [ shop.test, 127.0.0.1 ], {backend} timeout: 60s }}
tools:
{tools}"""
TOOL = """\
  {name}:
    match: POST shop {path}
    effect: write
{words}    undo: none
    reason: a row of a test is never undone
"""
NO_TOOL = "  search: { match: POST shop /search, effect: read }\n"
ANY_TOOL = TOOL.format(name="any.create", path="/**", words="")


def tool(name="rows.add", path="/rows/{token}", **words):
    lines = "".join(f"    {word}: {value}\n" for word, value in words.items())
    return TOOL.format(name=name, path=path, words=lines)


# Before, after: the lines of the tools.
EDITS = {
    "identity": (tool(), tool(identity="body#/cart")),
    "identity gone": (tool(identity="body#/cart"), tool()),
    "ignore": (tool(), tool(ignore="[ body#/at ]")),
    "ignore gone": (tool(ignore="[ body#/at ]"), tool()),
    "scope": (tool(), tool(scope="caller")),
    "scope gone": (tool(scope="header:X-Run"), tool()),
    "scope of a field for us gone": (tool(scope="header:X-Forwarded-Run"), tool()),
    "identity of a field for us gone": (tool(identity="header.X-Forwarded-Run"), tool()),
    "name": (tool(), tool(name="rows.make")),
    "name and identity": (tool(), tool(name="rows.make", identity="body#/cart")),
    "more exact tool": (ANY_TOOL, ANY_TOOL + tool()),
    "tool gone": (ANY_TOOL + tool(), ANY_TOOL),
    "unlisted becomes a tool": (NO_TOOL, tool()),
    "tool becomes unlisted": (tool(), NO_TOOL),
}


def policy(double, tools, backend="", words=""):
    return POLICY.format(url=double.url, tools=tools, backend=backend) + words


def send(process, path, trace=TRACE, cart="c1", at="noon", **fields):
    headers = {"X-Run": "r1", "X-Forwarded-Run": "r1"}
    headers |= {name.replace("_", "-"): value for name, value in fields.items()}
    headers |= rawhttp.traced(trace) if trace else {}
    return rawhttp.call(process.port, "POST", path, headers=headers, body={"cart": cart, "at": at})


def reload(process, text):
    fresh = process.policy_path.with_suffix(".new")
    fresh.write_text(text)
    os.rename(fresh, process.policy_path)
    put_in_force(process)


def restart(process, text):
    process.kill()
    process.policy_path.write_text(text)
    process.start()


@pytest.mark.parametrize("trace", [TRACE, None], ids=["trace", "no trace"])
@pytest.mark.parametrize("change", [reload, restart])
@pytest.mark.parametrize("edit", EDITS)
def test_the_repeat_of_an_unknown_call_is_not_sent_under_the_next_policy(
    double, tmp_path, token, edit, change, trace
):
    path = f"/rows/{token}"
    before, after = EDITS[edit]
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, before)) as process:
        assert send(process, path, trace).outcome == "unknown"
        change(process, policy(double, after))
        told = send(process, path, trace)
        assert (told.status, told.outcome) == (409, "unknown"), told
        assert len(double.requests(path)) == 1
        assert process.verify()["ok"]


# Further words of the policy, and of its backend.
WORDS = {
    "callers": ({}, {"words": "callers: { field: X-Run }\n"}),
    "callers gone": ({"words": "callers: { field: X-Run }\n"}, {}),
    "principal": ({}, {"words": "principal: [ X-Run ]\n"}),
    "key": ({}, {"backend": "key_header: X-Call,"}),
    "key gone": ({"backend": "key_header: X-Call,"}, {}),
}


@pytest.mark.parametrize("change", [reload, restart])
@pytest.mark.parametrize("edit", WORDS)
def test_what_else_names_a_call_may_change_too(double, tmp_path, token, edit, change):
    path = f"/rows/{token}"
    before, after = WORDS[edit]
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, tool(), **before)) as process:
        assert send(process, path, X_Call="k7").outcome == "unknown"
        change(process, policy(double, tool(name="rows.make"), **after))
        told = send(process, path, X_Call="k7")
        assert (told.status, told.outcome) == (409, "unknown"), told
        assert len(double.requests(path)) == 1


# In one trace its key stays what it was; who called is a part of its name under other traces.
@pytest.mark.parametrize("trace", [TRACE, OTHER_TRACE], ids=["trace", "another trace"])
@pytest.mark.parametrize("change", [reload, restart])
def test_who_calls_may_be_told_by_more(double, tmp_path, token, change, trace):
    path = f"/rows/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, tool())) as process:
        assert send(process, path).outcome == "unknown"
        change(process, policy(double, tool(), words="principal: [ X-Run ]\n"))
        assert send(process, path, trace).status == 409
        assert len(double.requests(path)) == 1


# Where the agent's key stands, before and after.
PLACES = {
    "elsewhere in the body": ("body#/k", "body#/other"),
    "out of the body": ("body#/k", None),
    "into the body": (None, "body#/k"),
    "from the body to a field": ("body#/k", "header:X-Other"),
    "from a field to the body": ("header:X-Call", "body#/other"),
    "from the query to the body": ("query.call", "body#/other"),
}


def keyed_tool(place):
    return tool(key_at=f"'{place}'") if place else tool()


@pytest.mark.parametrize("trace", [TRACE, None], ids=["trace", "no trace"])
@pytest.mark.parametrize("change", [reload, restart])
@pytest.mark.parametrize("edit", PLACES)
def test_the_place_of_the_key_may_move(double, tmp_path, token, edit, change, trace):
    path = f"/rows/{token}"
    before, after = map(keyed_tool, PLACES[edit])
    call = {
        "headers": {"X-Call": "k7", **(rawhttp.traced(trace) if trace else {})},
        "body": {"cart": "c1", "k": "k7"},
    }
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, before)) as process:
        assert rawhttp.call(process.port, "POST", f"{path}?call=k7", **call).outcome == "unknown"
        change(process, policy(double, after))
        told = rawhttp.call(process.port, "POST", f"{path}?call=k7", **call)
        assert (told.status, told.outcome) == (409, "unknown"), told
        assert len(double.requests(path)) == 1
        call["body"]["cart"], call["body"]["k"], call["headers"]["X-Call"] = "c2", "k8", "k8"
        assert rawhttp.call(process.port, "POST", f"{path}?call=k8", **call).status == 201


@pytest.mark.parametrize("change", [reload, restart])
def test_the_field_that_names_callers_may_get_another_name(double, tmp_path, token, change):
    path = f"/rows/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)

    def send_as(field, who="r1"):
        headers = {field: who, **rawhttp.traced(TRACE)}
        return rawhttp.call(process.port, "POST", path, headers=headers, body={"cart": "c1"})

    words = "callers: {{ field: {} }}\n".format
    with Recourse(tmp_path, policy(double, tool(), words=words("X-Run"))) as process:
        assert send_as("X-Run").outcome == "unknown"
        change(process, policy(double, tool(name="rows.make"), words=words("X-Agent")))
        told = send_as("X-Agent")
        assert (told.status, told.outcome) == (409, "unknown"), told
        assert len(double.requests(path)) == 1
        assert send_as("X-Agent", "r2").status == 201


@pytest.mark.parametrize("change", [reload, restart])
def test_whose_answer_was_lost_gets_it_under_the_next_policy(double, tmp_path, token, change):
    path = f"/rows/{token}"
    double.script("POST", path, ["read", {"gate": token}, "execute", "answer"], 1)
    with Recourse(tmp_path, policy(double, tool())) as process:
        gone = rawhttp.Connection(process.port)
        fields = {"Content-Type": "application/json", "X-Run": "r1", **rawhttp.traced(TRACE)}
        body = b'{"cart": "c1", "at": "noon"}'
        gone.send(rawhttp.render("POST", path, "shop.test", fields, body))
        double.await_requests("POST", path)
        gone.close()
        double.open_gate(token)
        process.await_phase(path, "SUCCEEDED")
        change(process, policy(double, tool(name="rows.make", identity="body#/cart")))
        assert send(process, path).replayed and send(process, path).replayed
        assert len(double.effects(path)) == 1


@pytest.mark.parametrize("change", [reload, restart])
def test_two_intents_stay_two(double, tmp_path, token, change):
    """The policy that the first began under tells them apart, also by what no body says."""
    path = f"/rows/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, tool(identity="header.X-Order"))) as process:
        assert send(process, path, X_Order="1").outcome == "unknown"
        change(process, policy(double, tool(name="rows.make", identity="header.X-Order")))
        assert send(process, path, X_Order="2").status == 201
        assert send(process, path, X_Order="1").status == 409
        assert len(double.requests(path)) == 2


def test_what_the_former_policy_took_for_one_is_withheld_and_not_shown(double, tmp_path, token):
    path = f"/rows/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, tool(identity="body#/cart"))) as process:
        assert send(process, path).outcome == "unknown"
        both = tool(identity="[ body#/cart, body#/at ]", on_mismatch="replay")
        reload(process, policy(double, both))
        assert send(process, path, at="one").status == 422
        assert send(process, path, cart="c2").status == 201
        settled = process.cli(
            "operations", "settle", str(process.events_for(path)[0]["operation"]),
            "--as", "absent", "--reason", "looked",
        )  # fmt: skip
        assert settled.returncode == 0, settled
        assert send(process, path, at="one").status == send(process, path).status == 201
        assert len(double.requests(path)) == 4


def test_the_key_that_an_answer_told_names_the_call_still(double, tmp_path, token):
    path = f"/rows/{token}"
    double.script("POST", path, ["read", "execute", "rst"], 1)
    with Recourse(tmp_path, policy(double, tool())) as process:
        key = send(process, path).header("Idempotency-Key")
        reload(process, policy(double, tool(name="rows.make")))
        told = send(process, path, OTHER_TRACE, Idempotency_Key=key)
        assert (told.status, len(double.requests(path))) == (409, 1)


def test_a_call_that_was_cut_off_is_not_sent_under_the_next_policy(double, tmp_path, token):
    """The answer never came, and neither process nor agent know more."""
    path = f"/rows/{token}"
    double.script("POST", path, ["read", "execute", {"gate": token}], 1)
    with Recourse(tmp_path, policy(double, tool())) as process:
        with ThreadPoolExecutor() as agents:
            cut_off = agents.submit(send, process, path)
            double.await_requests("POST", path)
            process.kill()
            double.open_gate(token)
            with pytest.raises((OSError, rawhttp.Cut)):
                cut_off.result()
        restart(process, policy(double, tool(name="rows.make", ignore="[ body#/at ]")))
        assert (send(process, path).status, len(double.requests(path))) == (409, 1)
