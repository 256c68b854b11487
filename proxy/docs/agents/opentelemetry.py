# pip install opentelemetry-distro opentelemetry-instrumentation-requests
# opentelemetry-instrument --traces_exporter none --metrics_exporter none \
#   --logs_exporter none python agent.py
# Drop a flag where its exporter is installed: one that is missing turns off all tracing.
import os
import requests
from opentelemetry import trace

with trace.get_tracer("agent").start_as_current_span("run"):
    requests.post(os.environ["SHOP_URL"] + "/orders", json={"item": "tea"})
    requests.post(os.environ["SHOP_URL"] + "/orders", json={"item": "milk"})
