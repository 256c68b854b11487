# pip install opentelemetry-distro opentelemetry-instrumentation-requests
# opentelemetry-instrument python agent.py
import os
import requests
from opentelemetry import trace

with trace.get_tracer("agent").start_as_current_span("run"):
    requests.post(os.environ["SHOP_URL"] + "/orders", json={"item": "tea"})
    requests.post(os.environ["SHOP_URL"] + "/orders", json={"item": "milk"})
