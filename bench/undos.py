"""How fast broken flows are undone: from the first cancel to the last flow that is undone."""

import http.client
import json
import os
import secrets
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from servers import Servers

CLIENTS = 16
UNDO_SECONDS_MAX = 120
# name: (flows, steps of each)
SHAPES = {"1 flow of 100 steps": (1, 100), "1,000 flows of 3 steps": (1_000, 3)}


def post(connection, trace, body, **headers):
    connection.request("POST", "/stock", body, {
        "Content-Type": "application/json", "traceparent": f"00-{trace}-{'1' * 16}-01", **headers})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def open_flow(port, steps):
    """Returns the trace of a new flow with so many steps."""
    connection, trace = http.client.HTTPConnection("127.0.0.1", port), secrets.token_hex(16)
    for step in range(steps):
        status, text = post(connection, trace, json.dumps({"item": f"{trace}-{step}"}))
        if status != 200:
            raise SystemExit(f"a step was answered with {status}: {text}")
    connection.close()
    return trace


def cancel(port, trace):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    status, text = post(connection, trace, b"", **{"Recourse-Flow": "cancel"})
    if status != 202:
        raise SystemExit(f"a cancel was answered with {status}: {text}")
    connection.close()


def undone(server):
    return server.metrics().get('recourse_flows_total{result="undone"}', 0)


def measure(server, flows, steps):
    """Seconds from the first cancel until all those flows are undone."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        traces = list(pool.map(lambda _: open_flow(server.port, steps), range(flows)))
        goal = undone(server) + flows
        begin = time.monotonic()
        list(pool.map(lambda trace: cancel(server.port, trace), traces))
        while undone(server) < goal:
            if time.monotonic() - begin > UNDO_SECONDS_MAX:
                raise SystemExit(f"{goal - undone(server)} flows are not undone after "
                                 f"{UNDO_SECONDS_MAX} s")
            time.sleep(0.01)
        return time.monotonic() - begin


def run(options, report):
    cpus = os.sched_getaffinity(0)
    with Servers(options.build, options.folder) as servers:
        backend = servers.start_tool("backend", cpus)
        recourse = servers.start_recourse(cpus, backend.port, "undos.yaml")
        rates = {name: [flows * steps / measure(recourse, flows, steps)
                        for _ in range(options.rounds)]
                 for name, (flows, steps) in SHAPES.items()}
    print("\nUndos of broken flows, each two commits and a request over a connection of its own")
    for shape, found in rates.items():
        print(f"{shape:34}{statistics.median(found):12,.0f} undos/s "
              f"(from {min(found):,.0f} to {max(found):,.0f})")
    report.data["undos_per_second"] = rates
