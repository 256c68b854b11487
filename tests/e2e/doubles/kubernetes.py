"""The Kubernetes API (kubernetes/apimachinery pkg/apis/meta/v1/types.go; documentation of API
concepts): a taken name is 409 AlreadyExists; preconditions.uid of a deletion, and resourceVersion
of an update, that do not hold are 409 Conflict; what is gone is 404 NotFound; lists select by
name. With finalizers a deleted object is there until they have done their work."""

from doubles.base import Case, Double, Refused, route

PLACE = "(/api/v1|/apis/[^/]+/[^/]+)/namespaces/([^/]+)/([^/]+)"


class Kubernetes(Double):
    volatile = ("resourceVersion",)
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
        meta = asked["metadata"]
        name = meta.get("name") or f"{meta['generateName']}{self.number()}"
        key = f"{plural} {namespace} {name}"
        if key in self.things:
            raise self.no(409, "AlreadyExists")
        meta = {**meta, "name": name, "uid": f"u-{self.number()}", "resourceVersion": "1"}
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


DOUBLE = Kubernetes
SHOP = "namespaces/shop"
SCALE = f"/apis/apps/v1/{SHOP}/deployments/$id/scale"


def a_deployment(double):
    name = f"d{double.number()}"
    meta = {"name": name, "namespace": "shop", "resourceVersion": str(double.number())}
    double.make(f"deployments shop {name}", metadata=meta, spec={"replicas": 3})
    return name


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
    Case("kubernetes.scale", f"PUT {SCALE}", {"spec": {"replicas": 5}}, given=a_deployment,
         foreign=others_scale),
    Case("kubernetes.scale", f"PATCH {SCALE}", {"spec": {"replicas": 0}}, given=a_deployment,
         foreign=others_scale),
    Case("kubernetes.pod.evict", f"POST /api/v1/{SHOP}/pods/$token/eviction", {}, undone=None),
]  # fmt: skip
