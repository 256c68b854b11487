# pip install opentelemetry-distro opentelemetry-instrumentation-requests
import os
from opentelemetry import trace
from opentelemetry.instrumentation import auto_instrumentation

auto_instrumentation.initialize()  # not needed under `opentelemetry-instrument python agent.py`
import requests  # noqa: E402

with trace.get_tracer("agent").start_as_current_span("run"):
    requests.post(os.environ["SHOP_URL"] + "/orders", json={"item": "tea"})
    requests.post(os.environ["SHOP_URL"] + "/orders", json={"item": "milk"})
