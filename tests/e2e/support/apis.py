"""Small doubles of the APIs in policy/packs, each true to the documented behaviour that its pack
rests on: what is refused, what an answer says, what a second deletion gives."""

import http.server
import json
import re
import threading
import urllib.parse


class Refused(Exception):
    def __init__(self, status, body=None):
        super().__init__(status)
        self.status, self.body = status, body


class Api:
    """One API on a port of its own. `effects` are what happened there, oldest first."""

    routes = ()  # ("METHOD /path/(capture)", name of a method), the first that matches counts

    def __init__(self):
        self.lock = threading.Lock()
        self.effects = []
        self.requests = []  # (method, path, headers)
        self.things = {}
        self.lose_answers = 0  # so many effects happen without an answer
        self.lose_next = 0  # so many answers do not come, whatever they say
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                length = int(self.headers.get("Content-Length", 0))
                api.serve(self, self.rfile.read(length))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def next_number(self):
        return len(self.effects) + 101

    def happened(self, what):
        self.effects.append(what)

    def serve(self, http_request, body):
        url = urllib.parse.urlsplit(http_request.path)
        with self.lock:
            self.requests.append((http_request.command, http_request.path, http_request.headers))
            effects = len(self.effects)
            try:
                self.check(http_request)
                status, answer, headers = self.route(http_request, url, body)
            except Refused as refused:
                status, answer, headers = refused.status, refused.body, {}
            lost = len(self.effects) > effects and self.lose_answers > 0
            self.lose_answers -= lost
            lost_next = self.lose_next > 0
            self.lose_next -= lost_next
        if lost or lost_next:
            http_request.close_connection = True
            return
        data = b"" if answer is None else json.dumps(answer).encode()
        http_request.send_response(status)
        for name, value in headers.items():
            http_request.send_header(name, value)
        if status != 204:
            http_request.send_header("Content-Type", "application/json; charset=utf-8")
            http_request.send_header("Content-Length", str(len(data)))
        http_request.end_headers()
        http_request.wfile.write(data)

    def route(self, http_request, url, body):
        for pattern, name in self.routes:
            found = re.fullmatch(pattern, f"{http_request.command} {url.path}")
            if found:
                captures = [urllib.parse.unquote(text) for text in found.groups()]
                result = getattr(self, name)(http_request, body, *captures)
                return result if len(result) == 3 else (*result, {})
        raise Refused(404, {"message": "Not Found"})

    def check(self, http_request):
        if not http_request.headers.get("Authorization", "").startswith(("Bearer ", "Basic ")):
            raise Refused(401, {"message": "Unauthorized"})

    def remove(self, key, gone):
        if key not in self.things:
            raise Refused(*gone)
        del self.things[key]
        self.happened(f"delete {key}")


class Stripe(Api):
    routes = (
        ("POST /v1/charges", "charge"),
        ("POST /v1/refunds", "refund"),
        ("POST /v1/customers", "customer"),
        ("DELETE /v1/customers/([^/]+)", "forget"),
    )

    def __init__(self):
        super().__init__()
        self.by_key = {}

    def error(self, status, code):
        return Refused(status, {"error": {"type": "invalid_request_error", "code": code}})

    def form(self, http_request, body):
        if http_request.headers.get("Content-Type") != "application/x-www-form-urlencoded":
            raise self.error(400, "content_type")
        return dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))

    # The first answer under a key is the answer for ever, and other parameters are refused.
    def once(self, http_request, body, make):
        key = http_request.headers.get("Idempotency-Key")
        if key is None or key not in self.by_key:
            answer = make(self.form(http_request, body))
            if key is not None:
                self.by_key[key] = (http_request.path, body, answer)
            return answer
        path, first, answer = self.by_key[key]
        if (path, first) != (http_request.path, body):
            raise Refused(400, {"error": {"type": "idempotency_error"}})
        return (*answer, {"Idempotent-Replayed": "true"})

    def charge(self, http_request, body):
        def make(form):
            if not form.get("amount", "").isdigit() or "currency" not in form:
                raise self.error(400, "parameter_missing")
            charge = {"id": f"ch_{self.next_number()}", "object": "charge", "refunded": False}
            self.things[charge["id"]] = charge
            self.happened("charge")
            return 200, dict(charge)

        return self.once(http_request, body, make)

    def refund(self, http_request, body):
        def make(form):
            charge = self.things.get(form.get("charge"))
            if charge is None:
                raise self.error(404, "resource_missing")
            if charge["refunded"]:
                raise self.error(400, "charge_already_refunded")
            charge["refunded"] = True
            self.happened("refund")
            return 200, {"id": f"re_{self.next_number()}", "object": "refund"}

        return self.once(http_request, body, make)

    def customer(self, http_request, body):
        def make(form):
            customer = {"id": f"cus_{self.next_number()}", "object": "customer", **form}
            self.things[customer["id"]] = customer
            self.happened("customer")
            return 200, customer

        return self.once(http_request, body, make)

    def forget(self, _, __, name):
        self.remove(name, (404, {"error": {"code": "resource_missing"}}))
        self.effects[-1] = "delete customer"
        return 200, {"id": name, "object": "customer", "deleted": True}


class GitHub(Api):
    routes = (
        ("POST /repos/([^/]+/[^/]+)/issues", "create"),
        ("PATCH /repos/([^/]+/[^/]+)/issues/([0-9]+)", "edit"),
        ("POST /repos/([^/]+/[^/]+)/issues/([0-9]+)/comments", "comment"),
        ("DELETE /repos/([^/]+/[^/]+)/issues/comments/([0-9]+)", "uncomment"),
    )

    def check(self, http_request):
        if not http_request.headers.get("User-Agent"):
            raise Refused(403, {"message": "Request forbidden by administrative rules."})
        super().check(http_request)

    def create(self, _, body, repo):
        if "title" not in json.loads(body):
            raise Refused(422, {"message": "Validation Failed"})
        number = self.next_number()
        self.things[f"{repo}#{number}"] = "open"
        self.happened("issue")
        # The id names the issue in the whole of GitHub; only the number works in paths.
        return 201, {"id": 9_000_000 + number, "number": number, "state": "open"}

    def edit(self, _, body, repo, number):
        key, change = f"{repo}#{number}", json.loads(body)
        if key not in self.things:
            raise Refused(404, {"message": "Not Found"})
        if self.things[key] != change["state"]:
            self.things[key] = change["state"]
            self.happened(f"{change['state']} as {change['state_reason']}")
        return 200, {"number": int(number), "state": change["state"]}

    def comment(self, _, body, repo, number):
        if f"{repo}#{number}" not in self.things:
            raise Refused(404, {"message": "Not Found"})
        comment = self.next_number()
        self.things[f"{repo} comment {comment}"] = json.loads(body)["body"]
        self.happened("comment")
        return 201, {"id": comment, "body": json.loads(body)["body"]}

    def uncomment(self, _, __, repo, comment):
        self.remove(f"{repo} comment {comment}", (404, {"message": "Not Found"}))
        self.effects[-1] = "delete comment"
        return 204, None


class Slack(Api):
    """Errors are answers 200; names of channels are known to chat.postMessage alone."""

    routes = (("POST /api/chat.postMessage", "post"), ("POST /api/chat.delete", "delete"))

    def check(self, http_request):
        if not http_request.headers.get("Authorization", "").startswith("Bearer "):
            raise self.no("not_authed")

    def no(self, error):
        return Refused(200, {"ok": False, "error": error})

    def post(self, http_request, body):
        message = json.loads(body)
        channel = {"#general": "C024BE91L"}.get(message["channel"], message["channel"])
        if not channel.startswith("C"):
            raise self.no("channel_not_found")
        ts = f"1401383885.{self.next_number():06}"
        self.things[f"{channel} {ts}"] = message["text"]
        self.happened("message")
        return 200, {"ok": True, "channel": channel, "ts": ts, "message": {"text": message["text"]}}

    def delete(self, http_request, body):
        asked = json.loads(body)
        if not asked["channel"].startswith("C"):
            raise self.no("channel_not_found")
        key = f"{asked['channel']} {asked['ts']}"
        if not isinstance(asked["ts"], str) or key not in self.things:
            raise self.no("message_not_found")
        self.remove(key, ())
        self.effects[-1] = "delete message"
        return 200, {"ok": True, **asked}


class Jira(Api):
    routes = (
        ("POST /rest/api/3/issue", "create"),
        ("DELETE /rest/api/3/issue/([^/]+)", "delete"),
        ("POST /rest/api/3/issue/([^/]+)/comment", "comment"),
        ("DELETE /rest/api/3/issue/([^/]+)/comment/([0-9]+)", "uncomment"),
    )
    MISSING = (404, {"errorMessages": ["Issue does not exist or you do not have permission."]})

    def create(self, _, body):
        fields = json.loads(body)["fields"]
        if "summary" not in fields:
            raise Refused(400, {"errors": {"summary": "You must specify a summary of the issue."}})
        number = str(self.next_number())
        key = f"{fields['project']['key']}-{number}"
        self.things[number] = self.things[key] = fields
        self.happened("issue")
        return 201, {"id": number, "key": key, "self": f"{self.url}/rest/api/3/issue/{number}"}

    def delete(self, _, __, issue):
        self.remove(issue, self.MISSING)
        self.effects[-1] = "delete issue"
        return 204, None

    def comment(self, _, body, issue):
        if issue not in self.things:
            raise Refused(*self.MISSING)
        number = str(self.next_number())
        self.things[f"comment {number}"] = json.loads(body)
        self.happened("comment")
        return 201, {"id": number}

    def uncomment(self, _, __, issue, number):
        if issue not in self.things:
            raise Refused(*self.MISSING)
        self.remove(f"comment {number}", self.MISSING)
        self.effects[-1] = "delete comment"
        return 204, None


class Calendar(Api):
    """A deleted event stays, with status cancelled, and its id stays taken."""

    ROUTE = "/calendar/v3/calendars/([^/]+)/events"
    routes = (
        (f"POST {ROUTE}", "insert"),
        (f"GET {ROUTE}/([^/]+)", "get"),
        (f"DELETE {ROUTE}/([^/]+)", "delete"),
    )

    def no(self, status, reason):
        return Refused(status, {"error": {"code": status, "errors": [{"reason": reason}]}})

    def insert(self, _, body, calendar):
        event = json.loads(body)
        name = event.get("id", f"auto{self.next_number()}")
        if not re.fullmatch("[a-v0-9]{5,1024}", name):
            raise self.no(400, "invalid")
        if (calendar, name) in self.things:
            raise self.no(409, "duplicate")
        self.things[calendar, name] = {**event, "id": name, "status": "confirmed"}
        self.happened("event")
        return 200, self.things[calendar, name]

    def get(self, _, __, calendar, name):
        if (calendar, name) not in self.things:
            raise self.no(404, "notFound")
        return 200, self.things[calendar, name]

    def delete(self, _, __, calendar, name):
        event = self.things.get((calendar, name))
        if event is None:
            raise self.no(404, "notFound")
        if event["status"] == "cancelled":
            raise self.no(410, "deleted")
        event["status"] = "cancelled"
        self.happened("delete event")
        return 204, None


class SendGrid(Api):
    routes = (("POST /v3/mail/send", "send"),)

    def send(self, _, __):
        self.happened("mail")
        return 202, None, {"X-Message-Id": f"m{self.next_number()}"}
