"""What injectors of meshes make of a pod."""

import copy
from functools import partial


def mesh_container(name, user, **more):
    """Who runs as root writes the rules that lead the pod's connections to the proxy."""
    rules = {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]}}
    context = {"runAsUser": user, "runAsNonRoot": user != 0, **(rules if "-init" in name else {})}
    return {"name": name, "image": "mesh:1", "securityContext": context, **more}


def mesh_probe(path, port, **more):
    return {"httpGet": {"path": path, "port": port}, **more}


def mesh_volumes(mesh, audience):
    token = {"serviceAccountToken": {"audience": audience, "path": f"{mesh}-token"}}
    return [{"name": f"{mesh}-data", "emptyDir": {"medium": "Memory"}},
            {"name": f"{mesh}-token", "projected": {"sources": [token]}}]  # fmt: skip


def mounts_of(volumes):
    return [{"name": one["name"], "mountPath": f"/var/run/{one['name']}"} for one in volumes]


def istio(made, native):
    """istiod: its own first, or without native sidecars last, and the probes of all others through
    its agent. As in pkg/kube/inject/testdata/inject of istio/istio:
    native-sidecar.yaml.injected (07bb7fd7), app_probe/startup_ready_live.yaml.injected
    (1268ceae)."""
    after = copy.deepcopy(made)
    spec, notes = after["spec"], after["metadata"]["annotations"]
    own = spec.setdefault("initContainers", [])
    for one in own + spec["containers"]:
        for probe, path in (("startupProbe", "startupz"), ("readinessProbe", "readyz"),
                            ("livenessProbe", "livez")):  # fmt: skip
            if "httpGet" in one.get(probe, {}):
                one[probe]["httpGet"] = {"path": f"/app-health/{one['name']}/{path}", "port": 15020}
    volumes = mesh_volumes("istio", "istio-ca")
    drain = ["pilot-agent", "request", "--debug-port=15020", "POST", "drain"]
    ready = partial(mesh_probe, "/healthz/ready", 15021)
    rules = mesh_container("istio-init", 0, args=["istio-iptables", "-p", "15001", "-u", "1337"])
    proxy = mesh_container(
        "istio-proxy", 1337, ports=[{"containerPort": 15090, "name": "http-envoy-prom"}],
        readinessProbe=ready(periodSeconds=15), volumeMounts=mounts_of(volumes))  # fmt: skip
    if native:
        proxy |= {"restartPolicy": "Always", "startupProbe": ready(failureThreshold=600),
                  "lifecycle": {"preStop": {"exec": {"command": drain}}}}  # fmt: skip
        own[:0] = [rules, proxy]
    else:
        own.append(rules)
        spec["containers"].append(proxy)
    spec["volumes"] += volumes
    notes["sidecar.istio.io/status"] = "{}"
    after["metadata"]["labels"]["security.istio.io/tlsMode"] = "istio"
    return after


def linkerd(made, native):
    """linkerd: `add` at /spec/initContainers/0 and /1, or without native sidecars its proxy at
    /spec/containers/0, which holds those after it. As in cli/cmd/testdata of linkerd/linkerd2:
    inject_emojivoto_deployment_native_sidecar.golden.yml, inject_emojivoto_deployment.golden.yml
    (005a3a47)."""
    after = copy.deepcopy(made)
    spec = after["spec"]
    own = spec.setdefault("initContainers", [])
    volumes = mesh_volumes("linkerd-identity", "identity.l5d.io")
    lock = {"name": "linkerd-proxy-init-xtables-lock", "emptyDir": {}}
    wait = ["/usr/lib/linkerd/linkerd-await", "--timeout=2m", "--port=4191"]
    rules = mesh_container("linkerd-init", 65534, volumeMounts=mounts_of([lock]),
                           args=["--inbound-ports-to-ignore", "4190,4191,19082"])  # fmt: skip
    proxy = mesh_container(
        "linkerd-proxy", 2102, volumeMounts=mounts_of(volumes),
        ports=[{"containerPort": 4143, "name": "linkerd-proxy"},
               {"containerPort": 4191, "name": "linkerd-admin"}],
        livenessProbe=mesh_probe("/live", 4191), readinessProbe=mesh_probe("/ready", 4191),
    )  # fmt: skip
    if native:
        proxy |= {"restartPolicy": "Always",
                  "startupProbe": mesh_probe("/ready", 4191, failureThreshold=120)}  # fmt: skip
        own[:0] = [rules, proxy]
    else:
        proxy["lifecycle"] = {"postStart": {"exec": {"command": wait}}}
        own.append(rules)
        spec["containers"].insert(0, proxy)
    spec["volumes"] += [lock, *volumes]
    after["metadata"]["annotations"]["linkerd.io/proxy-version"] = "test"
    after["metadata"]["labels"]["linkerd.io/control-plane-ns"] = "linkerd"
    return after
