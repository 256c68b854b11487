"""What all doubles of the packs have in common: routes, a key layer, and the switches by which a
test makes an API behave as badly as its documents allow."""

import copy
import itertools
import json
import re
import threading
import urllib.parse
from dataclasses import dataclass, field

from support.apis import Api, Refused


def route(*patterns):
    """Marks a method as what answers `METHOD /path/([^/]+)`; the captures are its arguments."""

    def mark(method):
        method.patterns = patterns
        return method

    return mark


class Request:
    def __init__(self, http_request, body):
        self.method, self.path = http_request.command, http_request.path
        self.headers, self.body = http_request.headers, body
        url = urllib.parse.urlsplit(self.path)
        self.route = f"{self.method} {url.path}"
        self.queries = urllib.parse.parse_qs(url.query)
        self.query = {name: values[0] for name, values in self.queries.items()}

    def json(self):
        return json.loads(self.body or b"{}")

    def form(self):
        return dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass
class Kind:
    """A collection whose things are made, changed and deleted in the usual way."""

    path: str  # of the collection, a pattern
    name: str
    wrap: str = ""  # the member of bodies in which the thing stands
    prefix: str = ""  # of its ids
    needs: tuple = ()
    members: dict = field(default_factory=dict)  # that a new one has
    made: int = 201
    deleted: int = 204
    gone: tuple = (404, {"error": "not found"})
    invalid: tuple = (422, {"error": "invalid"})
    lists: str = "data"  # the member in which lists stand


class Double(Api):
    """Handlers take a Request and the captures of their route; they give a status, an answer and
    perhaps fields, or raise Refused. What calls happened() had an effect."""

    reads = ()  # routes of other methods than GET that only ask
    volatile = ()  # members that no undo brings back: stamps, versions
    kinds = ()
    too_many = (429, {"message": "Too many requests"}, {})

    def __init__(self):
        self.counter = itertools.count(101)
        self.keys = {}  # of the key layer: what was asked, and what was answered
        # The switches; lose_answers is the one of Api.
        self.throttled = 0  # so many writes are refused before the key layer sees them
        self.is_late = False  # writes go unanswered, and take effect at arrive()
        self.lag = 0  # so many lists do not show what was made since lag_behind()
        self.slow = 0  # so many questions pass before what was taken on is done
        self.is_silent = False  # effects happen, and no answer comes before released is set
        self.released = threading.Event()
        self.pending = []
        self.old = set()
        self.newest = None  # the name of what was made last
        members = [getattr(type(self), name) for name in dir(type(self))]
        self.table = [(p, m) for m in members for p in getattr(m, "patterns", ())]
        super().__init__()

    # What tests ask and do.
    def state(self):
        def steady(node):
            if isinstance(node, dict):
                return {k: steady(v) for k, v in node.items() if k not in self.volatile}
            return [steady(one) for one in node] if isinstance(node, list) else node

        with self.lock:
            things = {str(name): steady(thing) for name, thing in self.things.items()}
            return json.dumps(things, sort_keys=True)

    def make(self, name, /, **members):
        """What was there before the agent came."""
        with self.lock:
            self.things[name] = members
        return name

    def change(self, name, /, **members):
        """Somebody else's hand."""
        with self.lock:
            self.things[name].update(copy.deepcopy(members))
            self.touch(self.things[name])

    def touch(self, thing):
        """A change leaves its trace in versions and stamps."""

    def forget_keys(self):
        with self.lock:
            self.keys.clear()

    def lag_behind(self, lists):
        with self.lock:
            self.lag, self.old = lists, set(self.things)

    def arrive(self):
        with self.lock:
            self.is_late = False
            for call in self.pending:
                self.answer(call)
            self.pending.clear()

    # What handlers use.
    def number(self):
        return next(self.counter)

    def add(self, name, what, /, **members):
        self.things[name] = members
        self.newest = name
        self.happened(what)
        return members

    def listed(self, kind):
        """Names and things in the order in which they were made, as far as lists show them."""
        hides = self.lag > 0
        self.lag -= hides
        return [
            (name, thing)
            for name, thing in self.things.items()
            if name.startswith(f"{kind} ") and not (hides and name not in self.old)
        ]

    # The key layer of an API that has one.
    def key_of(self, call):
        return None

    def key_reused(self, call):
        raise NotImplementedError

    def key_hit(self):
        return {}

    def keeps(self, answer):
        return answer[0] < 500

    def is_read(self, call):
        return call.method in ("GET", "HEAD") or call.route in self.reads

    def answer(self, call):
        try:
            self.check(call)
            key = None if self.is_read(call) else self.key_of(call)
            if key in self.keys and key is not None:
                asked, answer = self.keys[key]
                if asked != (call.route, call.body):
                    self.key_reused(call)
                status, body, fields = answer
                return status, body, {**fields, **self.key_hit()}
            try:
                answer = self.run(call)
            except Refused as refused:
                answer = refused.status, refused.body, refused.headers
            if key is not None and self.keeps(answer):
                self.keys[key] = (call.route, call.body), copy.deepcopy(answer)
            return answer
        except Refused as refused:
            return refused.status, refused.body, refused.headers

    def run(self, call):
        for pattern, method in self.table:
            if found := re.fullmatch(pattern, call.route):
                captures = [urllib.parse.unquote(text) for text in found.groups()]
                answer = method(self, call, *captures)
                return answer if len(answer) == 3 else (*answer, {})
        for kind in self.kinds:
            if found := re.fullmatch(rf"[A-Z]+ {kind.path}(?:/([^/?]+))?", call.route):
                name = found.groups()[-1] and urllib.parse.unquote(found.groups()[-1])
                return (*self.of_kind(call, kind, name and f"{kind.name} {name}"), {})
        raise Refused(404, {"message": f"no route {call.route}"})

    # What most collections do: POST makes, GET shows, PUT and PATCH change, DELETE deletes.
    def of_kind(self, call, kind, name):
        if name is None and call.method == "GET":
            return 200, {kind.lists: [thing for _, thing in self.listed(kind.name)]}
        asked = call.json() if call.body else {}
        asked = asked.get(kind.wrap, asked) if kind.wrap else asked
        if name is None:
            for need in kind.needs:
                if need not in asked:
                    raise Refused(*kind.invalid)
            number = f"{kind.prefix}{self.number()}"
            thing = {**kind.members, **asked, "id": number}
            self.touch(thing)
            self.add(f"{kind.name} {number}", kind.name, **thing)
            return kind.made, self.shown(kind, thing)
        if name not in self.things:
            raise Refused(*kind.gone)
        thing = self.things[name]
        if call.method == "DELETE":
            del self.things[name]
            self.happened(f"delete {kind.name}")
            return kind.deleted, {} if kind.deleted == 200 else None
        if call.method != "GET":
            thing.update(asked)
            self.touch(thing)
            self.happened(f"{kind.name} changed")
        return 200, self.shown(kind, thing)

    def shown(self, kind, thing):
        return {kind.wrap: thing} if kind.wrap else thing

    def serve(self, http_request, body):
        call = Request(http_request, body)
        is_write = not self.is_read(call)
        answer, is_lost, had_effect = None, False, False
        with self.lock:
            self.requests.append((call.method, call.path, call.headers))
            if is_write and self.throttled > 0:
                self.throttled -= 1
                answer = self.too_many
            elif is_write and self.is_late:
                self.pending.append(call)
                is_lost = True
            else:
                effects = len(self.effects)
                answer = self.answer(call)
                had_effect = len(self.effects) > effects
                is_lost = had_effect and self.lose_answers > 0
                self.lose_answers -= is_lost
        if not is_lost and self.is_silent and had_effect:
            self.released.wait()
            is_lost = True
        if is_lost:
            http_request.close_connection = True
        else:
            self.send(http_request, *answer)


SAME = "the state is what it was"


@dataclass
class Case:
    """One write of a pack. In path and body `$token` is a word of its own, `$id` and the like are
    what `given` says was there before."""

    tool: str
    request: str  # "POST /v1/charges"
    body: object = ""  # a text is a form
    given: object = None  # called with the double; gives a name, or several in a dict
    undone: object = SAME  # or the effects of its undo; None: nothing undoes it, by its reason
    parks: bool = False  # no undo fits what it did, so its flow waits for a human
    foreign: object = None  # called with double and names: another's change, never overwritten
    moved: object = None  # called with double and names: what it made has gone on meanwhile
    moved_undo: object = None  # the effects of the undo then; None: a human is asked
    lost_parks: bool = False  # undone after an answer, but by a human after a lost one
    lists: bool = False  # its probe reads a list, which may lag
    unfound: bool = False  # its probe never finds it, so a human looks
    headers: dict = field(default_factory=dict)
    asks: bool = False  # a human is asked before it is sent
    later: str = ""  # "write" or "undo": that one is taken on, and done some questions later
