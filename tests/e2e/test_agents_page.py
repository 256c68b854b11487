"""The snippets of proxy/docs/agents.md and its folder, each run as it stands there: two writes of
one run are one flow under one trace, a repeat is recognised, and two runs are two flows."""

import importlib.metadata
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import textwrap

import pytest
import requests
import yaml

from support.mcp_fixtures import running  # noqa: F401
from support.npm import CLIENTS, node
from support.recourse import ROOT, WAIT_MAX, Recourse
from support.waiting import wait_until

PAGE = (pathlib.Path(ROOT) / "proxy/docs/agents.md").read_text()
POLICY = """\
version: 1
backends:
  shop: {{ url: "{shop}", hosts: [ shop.test, 127.0.0.1 ], timeout: 600s, connect_timeout: 30s }}
"""
WITH_TRACE = POLICY + """\
  tools: {{ url: "{tools}", hosts: [ 127.0.0.1 ], protocol: mcp, timeout: 600s,
           connect_timeout: 30s }}
tools:
  orders.create:
    match: POST shop /{{token}}/orders
    effect: write
    undo: {{ request: "DELETE /orders/{{external_ref}}", repeatable: true }}
  orders.mcp:
    match: tools/call tools create_order
    effect: write
    external_ref: answer.body#/id
    undo: {{ call: cancel_order, arguments: {{ id: "{{external_ref}}" }}, repeatable: true }}
  orders.cancel: {{ match: tools/call tools cancel_order, effect: write, reason: it undoes }}
"""
ONE = "One for each run"
MILK = re.compile(r'^(.*"milk".*)$', re.MULTILINE)

# What the snippets of the frameworks leave to their reader: a model, which orders tea and milk,
# and once more milk.
ITEMS = 'const items = ["tea", "milk", "milk"];\n'
OPENAI = ITEMS + """
import { setTracingDisabled, Usage } from "@openai/agents";
setTracingDisabled(true);
const model = { async getResponse() {
  const item = items.shift();
  const output = item
    ? { type: "function_call", callId: `call-${items.length}`, name: "create_order",
        status: "completed", arguments: JSON.stringify({ item }) }
    : { type: "message", role: "assistant", status: "completed",
        content: [{ type: "output_text", text: "done" }] };
  return { usage: new Usage(), output: [output] };
} };
"""
LANGGRAPH = ITEMS + """
import { AIMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
function buyer(tools) {
  const model = () => {
    const item = items.shift();
    const calls = item ? [{ name: "create_order", args: { item }, id: `call-${items.length}`,
      type: "tool_call" }] : [];
    return { messages: [new AIMessage({ content: "", tool_calls: calls })] };
  };
  return new StateGraph(MessagesAnnotation).addNode("agent", model)
    .addNode("tools", new ToolNode(tools)).addEdge("__start__", "agent")
    .addConditionalEdges("agent", toolsCondition).addEdge("tools", "agent")
    .compile({ checkpointer: new MemorySaver() });
}
"""
VERCEL = ITEMS + """
import { MockLanguageModelV4 } from "ai/test";
const model = new MockLanguageModelV4({ doGenerate: async () => {
  const item = items.shift();
  const content = item
    ? [{ type: "tool-call", toolCallId: `call-${items.length}`, toolName: "create_order",
        input: JSON.stringify({ item }) }]
    : [{ type: "text", text: "done" }];
  const reason = item ? "tool-calls" : "stop";
  return { content, finishReason: { unified: reason, raw: reason }, warnings: [],
    usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } } };
} });
"""
# heading, or file -> (language, what comes before the snippet; None: its writes are by HTTP)
HEADINGS = {"Python: requests": ("python", None), "Node: fetch": ("js", None)}
FILES = {
    "httpx.py": ("python", None),
    "opentelemetry.mjs": ("js", None),
    "opentelemetry.py": ("python", None),
    "openai-agents.mjs": ("js", OPENAI),
    "langgraph.mjs": ("js", LANGGRAPH),
    "vercel-ai.mjs": ("js", VERCEL),
    "mcp-sdk.mjs": ("js", ""),
}
SNIPPETS = HEADINGS | FILES
FOLDER = pathlib.Path(ROOT) / "proxy/docs/agents"
SPAN = "opentelemetry.mjs"
SPANS = (SPAN, "opentelemetry.py")
# What Debian has not: a snippet that needs it runs where somebody has installed it.
PACKAGES = {"opentelemetry.py": ["opentelemetry-distro", "opentelemetry-instrumentation-requests"]}
INSTRUMENTED = re.compile(r"^# (opentelemetry-instrument) (.*) python agent\.py$", re.MULTILINE)


def fence(heading, language):
    """The one snippet in that language under the heading."""
    _, _, rest = PAGE.partition(f"\n## {heading}\n")
    section = rest.partition("\n## ")[0]
    (found,) = re.findall(rf"^ *```{language}\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found)


def script(heading):
    """A program of the snippet that repeats its last write."""
    language, before = SNIPPETS[heading]
    shown = (FOLDER / heading).read_text() if heading in FILES else fence(heading, language)
    text = MILK.sub(r"\1\n\1", shown)
    own = "" if heading in SPANS else fence(ONE, language)
    return language, (before or "") + own + text


def instrument(name):
    """The program where pip puts it: beside Python, or below the folder of --target."""
    packages = importlib.metadata.distribution("opentelemetry-instrumentation").locate_file("")
    places = (packages / "bin", pathlib.Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join(map(str, places)))
    assert found, f"no {name} in {places}"
    return found


def run(language, text, url):
    command = [sys.executable, "-"] if language == "python" else [node(), "--input-type=module"]
    if shown := INSTRUMENTED.search(text.replace("\\\n# ", "")):
        command = [instrument(shown[1]), *shown[2].split(), *command]
    if language == "js":
        text += "\nprocess.exit(0);\n"  # some clients keep their connections
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    env["SHOP_URL"] = url
    ended = subprocess.run(command, input=text, cwd=CLIENTS, env=env, capture_output=True,
                           text=True, timeout=2 * WAIT_MAX, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def proxy(double, running, tmp_path_factory):  # noqa: F811
    policy = WITH_TRACE.format(shop=double.url, tools=running.endpoint)
    with Recourse(tmp_path_factory.mktemp("agents"), policy) as recourse:
        yield recourse
        assert recourse.stop() == 0, recourse.stderr()[-4000:]


class Orders:
    """What became of the orders since it was made."""

    def __init__(self, recourse):
        self.recourse = recourse
        self.before = len(self.events())

    def events(self):
        return [event for event in self.recourse.events() if event["tool"] != "orders.cancel"]

    def succeeded(self):
        new = self.events()[self.before :]
        return [event for event in new if event["phase"] == "SUCCEEDED"]

    def flows(self):
        """The traces of the writes of each flow, in the order of their beginning."""
        traces = {}
        for event in self.succeeded():
            traces.setdefault(event["flow"], []).append(event["trace_id"])
        return traces


def test_every_snippet_of_the_page_is_tested():
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert headings == [ONE, *HEADINGS, "Frameworks", "Without a trace"]
    assert len(re.findall(r"^ *```\w", PAGE, re.MULTILINE)) == 2 + len(HEADINGS) + 1
    assert sorted(re.findall(r"\(agents/(.*?)\)", PAGE)) == sorted(FILES)
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("heading", SNIPPETS)
def test_a_run_is_one_flow_and_knows_its_repeats(
    proxy, double, running, token, heading  # noqa: F811
):
    for package in PACKAGES.get(heading, []):
        if not list(importlib.metadata.distributions(name=package)):
            pytest.skip(f"{package} is not installed")
    language, text = script(heading)
    is_mcp = SNIPPETS[heading][1] is not None
    running.reset()
    orders = Orders(proxy)
    url = f"http://127.0.0.1:{proxy.port}" + ("" if is_mcp else f"/{token}")
    for _ in range(2):
        run(language, text, url)
    flows = orders.flows()
    assert len(flows) == 2, flows
    listed = {flow["flow"]: flow for flow in proxy.admin("GET", "/flows?all=true")["flows"]}
    for flow, traces in flows.items():
        assert re.fullmatch("[0-9a-f]{32}", flow) and traces == [flow, flow]
        assert listed[flow]["step_count"] == 2, listed[flow]
    if is_mcp:
        made = [arguments["item"] for arguments in running.executions("create_order")]
    else:
        made = [request["body_sha256"] for request in double.requests(f"/{token}/orders")]
    assert len(made) == 4 and made[:2] == made[2:] and made[0] != made[1], made


def test_without_a_span_every_request_is_a_trace_of_its_own(proxy, packages, token):
    language, text = script(SPAN)
    orders = Orders(proxy)
    outside = 'await order("tea");\nawait order("tea");\n'
    run(language, text + outside, f"http://127.0.0.1:{proxy.port}/{token}")
    assert [len(traces) for traces in orders.flows().values()] == [2, 1, 1]


def test_a_span_within_the_first_trace_belongs_to_it(proxy, packages, token):
    within = re.search(r"`(propagation\.extract\(.*?\))`", PAGE, re.DOTALL)[1]
    language, text = script(SPAN)
    begun = 'startActiveSpan("run", '
    assert begun in text
    text = 'import { propagation, ROOT_CONTEXT } from "@opentelemetry/api";\n' + text.replace(
        begun, f"{begun}{{}}, {within}, "
    )
    trace = secrets.token_hex(16)
    text = f'const traceparent = "00-{trace}-b7ad6b7169203331-01";\n{text}'
    orders = Orders(proxy)
    for _ in range(2):
        run(language, text, f"http://127.0.0.1:{proxy.port}/{token}")
    assert orders.flows() == {trace: [trace, trace]}


# --- without a trace -----------------------------------------------------------------------------
class Door:
    """A Recourse whose policy is the page's, with some words of it replaced."""

    def __init__(self, recourse, double):
        self.recourse, self.double = recourse, double
        self.orders = Orders(recourse)
        self.before = self.executed()

    def executed(self):
        return len(self.double.effects("/orders"))

    def order(self, item, **headers):
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.recourse.port}/orders"
        body = item if isinstance(item, dict) else {"item": item}
        return requests.post(url, json=body, headers=fields, timeout=WAIT_MAX)

    def counts(self):
        """How many writes each flow has, and how often the backend executed one."""
        wait_until(lambda: len(self.orders.succeeded()) == self.executed() - self.before)
        flows = self.orders.flows().values()
        return [len(traces) for traces in flows], self.executed() - self.before


@pytest.fixture
def opened(double, tmp_path):
    made = []

    def of(*replaced):
        text = fence("Without a trace", "yaml")
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        yaml.safe_load(text)
        recourse = Recourse(tmp_path / str(len(made)), POLICY.format(shop=double.url) + text)
        made.append(recourse.start())
        return Door(recourse, double)

    yield of
    for recourse in made:
        assert recourse.stop() == 0, recourse.stderr()[-4000:]


HEADER = "header:X-Run-Id"
WITHOUT = f"without_trace: {HEADER}"
BODY = [(WITHOUT, 'parent: [ "body#/run" ]'), (HEADER, '"body#/run"')]
BAGGAGE = [(WITHOUT, "parent: [ baggage:run ]"), (HEADER, "baggage:run")]
NAMES = {
    "header": ([], lambda run: ({}, {"X_Run_Id": run})),
    "body": (BODY, lambda run: ({"run": run}, {})),
    "baggage": (BAGGAGE, lambda run: ({}, {"baggage": f"run={run}"})),
    "session": ([(HEADER, "session")], lambda run: ({}, {"Recourse_Session": run})),
    "MCP session": ([(HEADER, "session")], lambda run: ({}, {"Mcp_Session_Id": run})),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_run_makes_its_flow_and_its_repeats(opened, name):
    replaced, named = NAMES[name]
    door = opened(*replaced)
    for run_name in ("run-1", "run-2"):
        body, headers = named(run_name)
        for item in ("tea", "milk", "milk"):
            assert door.order({"item": item, **body}, **headers).status_code == 201
    assert door.counts() == ([2, 2], 4)
    assert list(door.orders.flows()) == ["run-1", "run-2"]


def refused(answer):
    return answer.status_code == 428 and answer.json()["type"].endswith("key-required")


def test_a_call_without_the_name_of_its_run_is_refused(opened):
    assert refused(opened().order("tea"))
    assert refused(opened((HEADER, "session")).order("tea"))


TRACED = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-c9dbf94db4de0be0-01"}
NO_NAMES = [(f"flow_rules: {{ {WITHOUT} }}\n", ""), (f"    scope: {HEADER}\n", "")]


def test_a_key_of_its_own_names_a_call_and_makes_no_flow(opened):
    door = opened(*NO_NAMES)
    answers = [
        door.order("tea", Idempotency_Key=f"{id(door)}-{key}", **headers)
        for key, headers in [("k1", {}), ("k1", {}), ("k1", TRACED), ("k2", {})]
    ]
    assert {answer.status_code for answer in answers} == {201}
    replayed = [answer.headers.get("Idempotent-Replayed") for answer in answers]
    assert replayed == [None, "true", "true", None]
    assert door.counts() == ([1, 1], 2)


def test_with_nothing_an_equal_call_is_another_one_unless_the_policy_says_so(opened):
    for rules, counts in (
        (NO_NAMES, ([1, 1, 1], 3)),
        ((NO_NAMES[0], (f"scope: {HEADER}", "scope: caller")), ([1, 1], 2)),
        ((NO_NAMES[0], (f"scope: {HEADER}", "identity: [ body#/item ]")), ([1, 1], 2)),
    ):
        door = opened(*rules)
        for item in ("tea", "milk", "tea"):
            assert door.order(item).status_code == 201
        assert door.counts() == counts


def test_a_tool_may_insist_on_a_trace_or_a_key(opened):
    door = opened(NO_NAMES[0], (f"scope: {HEADER}", "trace: required"))
    assert refused(door.order("tea"))
    assert door.order("tea", **TRACED).status_code == 201
    assert door.order("tea", Idempotency_Key=f"{id(door)}").status_code == 201
