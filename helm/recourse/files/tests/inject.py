"""Asks the injector about a pod, as an API server does, and looks at what it would add."""

import base64
import json
import os
import ssl
import urllib.request

asked = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "helm-test",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "dryRun": True,
        "namespace": "helm-test",
        "object": {
            "metadata": {
                "name": "agent",
                "annotations": {"recourse.dev/inject": "true", "recourse.dev/ledger": "emptyDir"},
            },
            "spec": {"containers": [{"name": "agent", "image": "agent"}]},
        },
    },
}
request = urllib.request.Request(
    os.environ["URL"], json.dumps(asked).encode(), {"Content-Type": "application/json"}
)
context = ssl.create_default_context(cafile="/run/injector/ca.crt")
with urllib.request.urlopen(request, timeout=30, context=context) as answer:
    said = json.load(answer)["response"]
assert said["uid"] == "helm-test", said
if said["allowed"]:
    added = json.loads(base64.b64decode(said["patch"]))
    (containers,) = [one["value"] for one in added if one["path"] == "/spec/initContainers"]
    print("the injector adds:", ", ".join(one["name"] for one in containers))
else:
    # There is no such namespace, so it has nothing that a sidecar mounts (injector.objects).
    reason = said["status"]["message"]
    assert "without which the sidecar never starts" in reason, said
    print("the injector would not add a sidecar that never starts:", reason)
