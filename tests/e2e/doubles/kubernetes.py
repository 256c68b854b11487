"""The Kubernetes API (kubernetes/apimachinery pkg/apis/meta/v1/types.go; documentation of API
concepts): a taken name is 409 AlreadyExists; preconditions.uid of a deletion, and resourceVersion
of an update, that do not hold are 409 Conflict; what is gone is 404 NotFound; lists select by
name. With finalizers a deleted object is there until they have done their work. A PUT replaces,
a merge patch adds and null takes away (RFC 7396), a JSON patch whose test fails is 422 (RFC 6902);
to make one with a resourceVersion is 400."""

import copy

from doubles.base import Case, Double, Refused, route

PLACE = "(/api/v1|/apis/[^/]+/[^/]+)/namespaces/([^/]+)/([^/]+)"


class Kubernetes(Double):
    volatile = ("resourceVersion", "uid", "creationTimestamp")
    too_many = (429, {"kind": "Status", "reason": "TooManyRequests", "code": 429}, {})

    def __init__(self):
        self.ending = {}  # object by object: how often it is still shown
        super().__init__()

    def no(self, status, reason):
        return Refused(status, {"kind": "Status", "status": "Failure", "reason": reason})

    def touch(self, thing):
        thing["metadata"]["resourceVersion"] = str(self.number())

    @route(f"POST {PLACE}")
    def create(self, call, _, namespace, plural):
        asked = call.json()
        meta = {name: value for name, value in asked["metadata"].items() if value is not None}
        asked = {name: value for name, value in asked.items() if value is not None}
        if "resourceVersion" in meta:
            raise self.no(400, "BadRequest")
        name = meta.get("name") or f"{meta['generateName']}{self.number()}"
        key = f"{plural} {namespace} {name}"
        if key in self.things:
            raise self.no(409, "AlreadyExists")
        meta = {"namespace": namespace, **meta, "name": name, "uid": f"u-{self.number()}",
                "resourceVersion": "1"}  # fmt: skip
        return 201, self.add(key, plural, **{**asked, "metadata": meta})

    @route(f"GET {PLACE}")
    def list(self, call, _, __, plural):
        selected = call.query["fieldSelector"].removeprefix("metadata.name=")
        items = [
            thing for _, thing in self.listed(plural) if thing["metadata"]["name"] == selected
        ]
        return 200, {"kind": "List", "items": items}

    @route(f"DELETE {PLACE}/([^/]+)")
    def delete(self, call, _, namespace, plural, name):
        key = f"{plural} {namespace} {name}"
        if key not in self.things:
            raise self.no(404, "NotFound")
        wanted = call.json().get("preconditions", {}).get("uid")
        if wanted not in (None, self.things[key]["metadata"]["uid"]):
            raise self.no(409, "Conflict")
        self.happened(f"delete {plural}")
        if self.slow > 0:
            self.ending.setdefault(key, self.slow)
            meta = {**self.things[key]["metadata"], "deletionTimestamp": "2026-08-01T00:00:00Z"}
            self.things[key]["metadata"] = meta
            return 200, self.things[key]
        del self.things[key]
        return 200, {"kind": "Status", "status": "Success"}

    @route(f"GET {PLACE}/([^/]+)")
    def show(self, _, __, namespace, plural, name):
        key = f"{plural} {namespace} {name}"
        if key in self.ending:
            self.ending[key] -= 1
            if self.ending[key] < 0:
                del self.things[key], self.ending[key]
        if key not in self.things:
            raise self.no(404, "NotFound")
        return 200, self.things[key]

    @route(f"(PUT|PATCH) {PLACE}/([^/]+)")
    def update(self, call, method, _, namespace, plural, name):
        key = f"{plural} {namespace} {name}"
        if key not in self.things:
            raise self.no(404, "NotFound")
        thing, asked = copy.deepcopy(self.things[key]), call.json()
        version = thing["metadata"]["resourceVersion"]
        if call.headers["Content-Type"] == "application/json-patch+json":
            self.patch(thing, asked)
        elif method == "PATCH":
            merge(thing, asked)
        else:
            fixed = {"uid": thing["metadata"]["uid"], "resourceVersion": version}
            thing = {**asked, "metadata": {**fixed, **asked["metadata"]}}
        if thing["metadata"]["resourceVersion"] != version:
            raise self.no(409, "Conflict")
        for one in (thing, thing["metadata"]):
            for member in [member for member, value in one.items() if value is None]:
                del one[member]
        self.touch(thing)
        self.things[key] = thing
        self.happened(f"change {plural}")
        return 200, thing

    def patch(self, thing, operations):
        for operation in operations:
            *way, last = operation["path"].replace("~1", "/").strip("/").split("/")
            at = thing
            for step in way:
                at = at[step]
            op = operation["op"]
            is_missing = op in ("test", "replace", "remove") and last not in at
            if is_missing or (op == "test" and at[last] != operation["value"]):
                raise self.no(422, "Invalid")
            if op == "remove":
                del at[last]
            elif op != "test":
                at[last] = operation["value"]

    @route(f"(GET|PUT|PATCH) {PLACE}/([^/]+)/scale")
    def scale(self, call, method, _, namespace, plural, name):
        thing = self.things[f"{plural} {namespace} {name}"]
        if method != "GET":
            asked = call.json()
            version = asked.get("metadata", {}).get("resourceVersion")
            if version not in (None, thing["metadata"]["resourceVersion"]):
                raise self.no(409, "Conflict")
            thing["spec"]["replicas"] = asked["spec"]["replicas"]
            self.touch(thing)
            self.happened(f"scale {thing['spec']['replicas']}")
        return 200, {"kind": "Scale", "metadata": thing["metadata"], "spec": thing["spec"]}

    @route("POST /api/v1/namespaces/[^/]+/pods/([^/]+)/eviction")
    def evict(self, _, __):
        self.happened("eviction")
        return 201, {"kind": "Status", "status": "Success"}


def merge(thing, changes):
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(thing.get(name), dict):
            merge(thing[name], value)
        elif value is None:
            thing.pop(name, None)
        else:
            thing[name] = value


DOUBLE = Kubernetes
SHOP = "namespaces/shop"
SCALE = f"/apis/apps/v1/{SHOP}/deployments/$id/scale"


def a_deployment(double):
    name = f"d{double.number()}"
    meta = {"name": name, "namespace": "shop", "resourceVersion": str(double.number())}
    double.make(f"deployments shop {name}", metadata=meta, spec={"replicas": 3})
    return name


def there(plural, kind, group="v1", labels=None, **members):
    def make(double):
        name = f"o{double.number()}"
        meta = {"name": name, "namespace": "shop", "uid": f"u-{name}",
                "resourceVersion": str(double.number())}  # fmt: skip
        if labels:
            meta["labels"] = labels
        double.make(f"{plural} shop {name}", apiVersion=group, kind=kind, metadata=meta, **members)
        return name

    return make


POD = {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}}
AN_APP = there("deployments", "Deployment", "apps/v1", {"app": "a"}, spec={"replicas": 3, **POD})
A_BARE_APP = there("deployments", "Deployment", "apps/v1", spec={"replicas": 3, **POD})
A_MAP = there("configmaps", "ConfigMap", labels={"app": "a"}, data={"a": "1", "b": "2"})
A_SECRET = there("secrets", "Secret", type="Opaque", data={"a": "YQ=="})
A_SERVICE = there("services", "Service", spec={"ports": [{"port": 80}], "selector": {"app": "a"}})
AN_ACCOUNT = there("serviceaccounts", "ServiceAccount", secrets=[{"name": "a"}])
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}  # in JSON, as most send it
PATCH = {"Content-Type": "application/json-patch+json"}
MAP, APP = f"/api/v1/{SHOP}/configmaps/$id", f"/apis/apps/v1/{SHOP}/deployments/$id"


def theirs(plural, **members):
    return lambda double, names: double.change(f"{plural} shop {names['id']}", **members)


def made_again(plural, make):
    """Somebody has made another one of that name."""

    def foreign(double, names):
        name = f"{plural} shop {make(double)}"
        double.things[f"{plural} shop {names['id']}"] = double.things.pop(name)

    return foreign


def others_scale(double, names):
    double.change(f"deployments shop {names['id']}", spec={"replicas": 9})


def another_one(double, _):
    """Somebody has deleted it, and made another of that name."""
    name = double.newest
    meta = {**double.things[name]["metadata"], "uid": "u-theirs"}
    double.make(name, metadata=meta, data={"a": "theirs"})


def gone(double, _):
    del double.things[double.newest]


CASES = [
    Case("kubernetes.core.create", f"POST /api/v1/{SHOP}/configmaps",
         {"metadata": {"name": "$token", "annotations": {"a": "b"}}, "data": {"a": "b"}},
         foreign=another_one, moved=gone, moved_undo=[], lists=True, later="undo"),
    Case("kubernetes.core.create", f"POST /api/v1/{SHOP}/secrets",
         {"metadata": {"name": "$token"}}, lists=True),
    Case("kubernetes.group.create", f"POST /apis/batch/v1/{SHOP}/jobs",
         {"metadata": {"name": "$token"}}, foreign=another_one, lists=True),
    Case("kubernetes.core.update", f"PATCH {MAP}", {"data": {"a": "$token", "c": "new"}},
         given=A_MAP, headers=MERGE, foreign=theirs("configmaps", data={"a": "theirs"})),
    Case("kubernetes.core.update", f"PATCH {MAP}", {"metadata": {"labels": {"b": "$token"}}},
         given=A_MAP, headers=MERGE),
    Case("kubernetes.core.update", f"PUT {MAP}", {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "$token"},
        "metadata": {"name": "$id", "namespace": "shop", "labels": {"app": "a"}}}, given=A_MAP,
         unfound=True),
    Case("kubernetes.core.update", f"PATCH {MAP}", {"metadata": {"annotations": {"a": "$token"}}},
         given=A_MAP, headers=MERGE, parks=True, unfound=True),
    Case("kubernetes.core.update", f"PATCH /api/v1/{SHOP}/services/$id",
         {"spec": {"selector": {"app": "$token"}}}, given=A_SERVICE, headers=MERGE),
    Case("kubernetes.group.update", f"PATCH {APP}", {"spec": {"replicas": 9}}, given=AN_APP,
         headers=MERGE, foreign=theirs("deployments", spec={"replicas": 4})),
    Case("kubernetes.group.update", f"PATCH {APP}",
         [{"op": "replace", "path": "/spec/replicas", "value": 8}], given=AN_APP, headers=PATCH,
         unfound=True),
    Case("kubernetes.group.update", f"PATCH {APP}?fieldManager=agent",
         {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "$id"},
          "spec": {"replicas": 6}}, given=AN_APP, headers=APPLY, unfound=True),
    Case("kubernetes.group.update", f"PATCH {APP}",
         {"metadata": {"labels": {"a": "$token"}}, "spec": {"replicas": 7}}, given=A_BARE_APP,
         headers=MERGE),
    Case("kubernetes.core.delete", f"DELETE {MAP}", given=A_MAP,
         foreign=made_again("configmaps", A_MAP)),
    Case("kubernetes.core.delete", f"DELETE /api/v1/{SHOP}/secrets/$id", given=A_SECRET),
    Case("kubernetes.core.delete", f"DELETE /api/v1/{SHOP}/services/$id", given=A_SERVICE),
    Case("kubernetes.core.delete", f"DELETE /api/v1/{SHOP}/serviceaccounts/$id", given=AN_ACCOUNT,
         parks=True),
    Case("kubernetes.group.delete", f"DELETE {APP}", given=AN_APP,
         foreign=made_again("deployments", A_BARE_APP)),
    Case("kubernetes.scale", f"PUT {SCALE}", {"spec": {"replicas": 5}}, given=a_deployment,
         foreign=others_scale),
    Case("kubernetes.scale", f"PATCH {SCALE}", {"spec": {"replicas": 0}}, given=a_deployment,
         foreign=others_scale),
    Case("kubernetes.pod.evict", f"POST /api/v1/{SHOP}/pods/$token/eviction", {}, undone=None),
]  # fmt: skip
