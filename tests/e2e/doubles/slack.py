"""Slack Web API (slack-ruby/slack-api-ref, docs.slack.dev/methods/*.json): errors are answers 200
with `ok: false`; a method whose work is done already says so by an error of its own; channels are
known by name to chat.postMessage alone; 429 with Retry-After in front of it all."""

from doubles.base import Case, Double, Refused, route


class Slack(Double):
    reads = ("POST /api/conversations.history",)
    too_many = (429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "1"})

    def check(self, call):
        if not call.headers.get("Authorization", "").startswith("Bearer "):
            raise self.no("not_authed")

    def no(self, error):
        return Refused(200, {"ok": False, "error": error})

    def drop(self, name, what, error):
        if name not in self.things:
            raise self.no(error)
        del self.things[name]
        self.happened(what)
        return 200, {"ok": True}

    @route("POST /api/chat.postMessage")
    def post(self, call):
        asked = call.json()
        channel = {"#general": "C024BE91L"}.get(asked["channel"], asked["channel"])
        if not channel.startswith("C"):
            raise self.no("channel_not_found")
        ts = f"1401383885.{self.number():06}"
        self.add(f"message {channel} {ts}", "message", text=asked["text"])
        return 200, {"ok": True, "channel": channel, "ts": ts}

    @route("GET /api/conversations.history")
    def history(self, call):
        asked = call.query
        message = self.things.get(f"message {asked['channel']} {asked['oldest']}")
        shown = [{"type": "message", "ts": asked["oldest"], **message}] if message else []
        return 200, {"ok": True, "messages": shown, "has_more": False}

    @route("POST /api/chat.update")
    def edit(self, call):
        asked = call.json()
        channel, ts = asked.pop("channel"), asked.pop("ts")
        message = self.things.get(f"message {channel} {ts}")
        if message is None:
            raise self.no("message_not_found")
        message.update(asked)
        self.happened("edit")
        return 200, {"ok": True, "channel": channel, "ts": ts, "text": asked["text"]}

    @route("POST /api/chat.delete")
    def delete(self, call):
        asked = call.json()
        name = f"message {asked['channel']} {asked['ts']}"
        return self.drop(name, "delete message", "message_not_found")

    @route("POST /api/chat.scheduleMessage")
    def schedule(self, call):
        name = f"Q{self.number()}"
        self.add(f"scheduled {name}", "schedule", **call.json())
        return 200, {"ok": True, "channel": "C024BE91L", "scheduled_message_id": name}

    @route("POST /api/chat.deleteScheduledMessage")
    def unschedule(self, call):
        name = f"scheduled {call.json()['scheduled_message_id']}"
        return self.drop(name, "unschedule", "invalid_scheduled_message_id")

    # What is there or not, and nothing more.
    @route("POST /api/(reactions|pins).(add|remove)")
    def mark(self, call, kind, verb):
        asked = call.json()
        name = f"{kind} {asked['channel']} {asked['timestamp']} {asked.get('name')}"
        there, gone = {"reactions": ("already_reacted", "no_reaction"),
                       "pins": ("already_pinned", "not_pinned")}[kind]  # fmt: skip
        if verb == "remove":
            return self.drop(name, f"{kind} remove", gone)
        if name in self.things:
            raise self.no(there)
        self.add(name, f"{kind} add")
        return 200, {"ok": True}

    @route("POST /api/conversations.create")
    def channel(self, call):
        name = call.json()["name"]
        if any(thing.get("name") == name for thing in self.things.values()):
            raise self.no("name_taken")
        channel = f"C{self.number()}"
        self.add(f"channel {channel}", "channel", name=name, is_archived=False)
        return 200, {"ok": True, "channel": {"id": channel, "name": name}}

    @route("POST /api/conversations.(archive|unarchive)")
    def archive(self, call, verb):
        channel = self.things[f"channel {call.json()['channel']}"]
        is_archived = verb == "archive"
        if channel["is_archived"] == is_archived:
            raise self.no("already_archived" if is_archived else "not_archived")
        channel["is_archived"] = is_archived
        self.happened(verb)
        return 200, {"ok": True}

    def find_channel(self, name):
        if f"channel {name}" not in self.things:
            raise self.no("channel_not_found")
        return self.things[f"channel {name}"]

    def shown_channel(self, name):
        channel = self.find_channel(name)
        topic = {"value": channel.get("topic", ""), "creator": "U1", "last_set": 0}
        shown = {"id": name, "name": channel["name"], "topic": topic,
                 "is_archived": channel["is_archived"]}  # fmt: skip
        return 200, {"ok": True, "channel": shown}

    @route("GET /api/conversations.info")
    def info(self, call):
        return self.shown_channel(call.query["channel"])

    @route("POST /api/conversations.(setTopic|rename)")
    def rename(self, call, method):
        asked = call.json()
        channel = self.find_channel(asked["channel"])
        if method == "setTopic":
            channel["topic"] = asked["topic"]
        elif any(thing.get("name") == asked["name"] for thing in self.things.values()):
            raise self.no("name_taken")
        else:
            channel["name"] = asked["name"]
        self.happened(method)
        return self.shown_channel(asked["channel"])

    @route("POST /api/conversations.kick")
    def kick(self, call):
        asked = call.json()
        name = f"member {asked['channel']} {asked['user']}"
        return self.drop(name, "kick", "not_in_channel")

    @route("POST /api/conversations.invite")
    def invite(self, call):
        asked = call.json()
        name = f"member {asked['channel']} {asked['users']}"
        if name in self.things:
            raise self.no("already_in_channel")
        self.add(name, "invite")
        return 200, {"ok": True}

    @route("POST /api/(canvases.create|bookmarks.add|usergroups.create)")
    def thing(self, call, method):
        name = f"T{self.number()}"
        self.add(f"thing {name}", method, is_enabled=True)
        answers = {"canvases.create": {"canvas_id": name},
                   "bookmarks.add": {"bookmark": {"id": name}},
                   "usergroups.create": {"usergroup": {"id": name}}}  # fmt: skip
        return 200, {"ok": True, **answers[method]}

    @route("POST /api/files.completeUploadExternal")
    def upload(self, call):
        name = call.json()["files"][0]["id"]
        self.add(f"thing {name}", "file")
        return 200, {"ok": True, "files": [{"id": name}]}

    @route("POST /api/(canvases.delete|bookmarks.remove|files.delete)")
    def drop_thing(self, call, method):
        member, error = {"canvases.delete": ("canvas_id", "canvas_not_found"),
                         "bookmarks.remove": ("bookmark_id", "not_found"),
                         "files.delete": ("file", "file_deleted")}[method]  # fmt: skip
        return self.drop(f"thing {call.json()[member]}", method, error)

    @route("POST /api/usergroups.disable")
    def disable(self, call):
        self.things[f"thing {call.json()['usergroup']}"]["is_enabled"] = False
        self.happened("disable")
        return 200, {"ok": True}


DOUBLE = Slack


def a_channel(is_archived, **members):
    def make(double):
        name = f"C{double.number()}"
        double.make(f"channel {name}", name=name.lower(), is_archived=is_archived, **members)
        return name

    return make


def a_message(**members):
    def make(double):
        number = str(double.number())
        double.make(f"message C1 {number}", text="Old", **members)
        return number

    return make


def gone(double, _):
    """Somebody else has taken it back already."""
    del double.things[double.newest]


def there(kind, suffix=""):
    def make(double):
        number = str(double.number())
        double.make(f"{kind} C1 {number}{suffix}")
        return number

    return make


A_PLACE = {"channel": "C1", "timestamp": "$token"}
CASES = [
    Case("slack.message", "POST /api/chat.postMessage", {"channel": "#general", "text": "$token"},
         moved=gone, moved_undo=[]),
    Case("slack.message.update", "POST /api/chat.update",
         {"channel": "C1", "ts": "$id", "text": "$token"}, given=a_message(),
         foreign=lambda double, names: double.change(f"message C1 {names['id']}", text="Theirs")),
    Case("slack.message.update", "POST /api/chat.update",
         {"channel": "C1", "ts": "$id", "text": "$token", "blocks": [{"type": "divider"}]},
         given=a_message(blocks=[{"type": "header"}])),
    Case("slack.message.update", "POST /api/chat.update",
         {"channel": "C1", "ts": "$id", "text": "$token", "blocks": [{"type": "divider"}]},
         given=a_message(), parks=True),
    Case("slack.message.delete", "POST /api/chat.delete", {"channel": "C1", "ts": "$id"},
         given=there("message"), undone=None),
    Case("slack.message.schedule", "POST /api/chat.scheduleMessage",
         {"channel": "#general", "post_at": 1800000000, "text": "$token"}, moved=gone),
    Case("slack.reaction.add", "POST /api/reactions.add", {**A_PLACE, "name": "ok"},
         moved=gone, moved_undo=[]),
    Case("slack.reaction.remove", "POST /api/reactions.remove",
         {"channel": "C1", "timestamp": "$id", "name": "ok"}, given=there("reactions", " ok")),
    Case("slack.pin.add", "POST /api/pins.add", A_PLACE, moved=gone, moved_undo=[]),
    Case("slack.pin.remove", "POST /api/pins.remove", {"channel": "C1", "timestamp": "$id"},
         given=there("pins", " None")),
    Case("slack.channel.create", "POST /api/conversations.create", {"name": "$token"},
         undone=["archive"],
         moved=lambda double, _: double.change(double.newest, is_archived=True), moved_undo=[]),
    Case("slack.channel.archive", "POST /api/conversations.archive", {"channel": "$id"},
         given=a_channel(False)),
    Case("slack.channel.unarchive", "POST /api/conversations.unarchive", {"channel": "$id"},
         given=a_channel(True)),
    Case("slack.channel.topic", "POST /api/conversations.setTopic",
         {"channel": "$id", "topic": "$token"}, given=a_channel(False, topic="Old"),
         foreign=lambda double, names: double.change(f"channel {names['id']}", topic="Theirs")),
    Case("slack.channel.topic", "POST /api/conversations.setTopic",
         {"channel": "$id", "topic": "$token"}, given=a_channel(False, topic="")),
    Case("slack.channel.rename", "POST /api/conversations.rename",
         {"channel": "$id", "name": "$token"}, given=a_channel(False),
         foreign=lambda double, names: double.change(f"channel {names['id']}", name="theirs")),
    Case("slack.channel.kick", "POST /api/conversations.kick", {"channel": "C1", "user": "$id"},
         given=there("member")),
    Case("slack.canvas.create", "POST /api/canvases.create", {"title": "$token"}, moved=gone,
         moved_undo=[]),
    Case("slack.bookmark.add", "POST /api/bookmarks.add",
         {"channel_id": "C1", "title": "$token", "link": "https://a.test"}, moved=gone,
         moved_undo=[]),
    Case("slack.usergroup.create", "POST /api/usergroups.create", {"name": "$token", "handle": "h"},
         undone=["disable"]),
    Case("slack.file.complete", "POST /api/files.completeUploadExternal",
         {"files": [{"id": "F$token"}]}, moved=gone, moved_undo=[]),
]  # fmt: skip
