"""What packs learn otherwise than by sending again: Adyen tells by webhook alone; PayPal, Microsoft
Graph, Linear and Google Calendar refuse a second one, in several ways, or overlook it."""

import copy
import dataclasses
import json
import uuid

import pytest
from doubles.adyen import KEY
from test_packs import CASES, World, Write

from support import rawhttp
from support.apis import Api, Refused
from support.operators import Guarded, tokens
from support.waiting import wait_until

HOOK = "token-of-the-receiver-of-webhooks"


def case_of(tool):
    return next(case for _, case in CASES if case.tool == tool)


class Receiver(Api):
    """The platform's receiver of Adyen's notifications, with a token that may settle alone. It
    knows by which event Recourse told of a merchantReference."""

    routes = (("POST /adyen", "take"),)

    def __init__(self, recourse):
        self.recourse, self.events, self.said = recourse, {}, []
        super().__init__()

    def check(self, _):
        """The platform checks the notification's HMAC, which is no matter here."""

    def take(self, _, body):
        for item in json.loads(body)["notificationItems"]:
            told = item["NotificationRequestItem"]
            event = self.events.get(told["merchantReference"])
            if event is None:
                raise Refused(503)  # Adyen tells it again
            word = {"as": "happened", "reason": f"{told['eventCode']} {told['pspReference']}",
                    "external_ref": told["pspReference"]}  # fmt: skip
            if told["success"] != "true":
                word = {"as": "absent", "reason": told["eventCode"]}
            status, _, said = self.recourse.ask(
                "POST", f"/operations/{event}/settle", HOOK, body=json.dumps(word),
                headers={"Content-Type": "application/json"})  # fmt: skip
            self.said.append((status, said))
        return 200, "[accepted]"


class Platform:
    """Adyen's pack and double, and the receiver between them."""

    def __init__(self, directory):
        self.world = World("adyen", directory, change=lambda text: text.replace(
            "    repeat_if:", "    key_lives: 0s\n    repeat_if:"))  # fmt: skip
        policy = self.world.recourse.policy_path.read_text()
        people = tokens(("adyen-webhooks", HOOK, "settle"))
        self.world.recourse = Guarded(directory / "guarded", policy, people)
        self.receiver = Receiver(self.world.recourse)

    def __enter__(self):
        self.world.__enter__()
        self.world.recourse.await_login(HOOK)
        return self

    def __exit__(self, *more):
        self.receiver.stop()
        self.world.__exit__(*more)

    def notify(self, reference, psp, code="REFUND", success="true"):
        item = {"eventCode": code, "success": success, "merchantReference": reference,
                "pspReference": psp}  # fmt: skip
        body = {"live": "false", "notificationItems": [{"NotificationRequestItem": item}]}
        port = self.receiver.server.server_address[1]
        return rawhttp.call(port, "POST", "/adyen", body=body).status


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    directory = tmp_path_factory.mktemp("adyen")
    (directory / "guarded").mkdir()
    with Platform(directory) as running:
        yield running


@pytest.mark.parametrize("success, outcome", [("true", "executed"), ("false", "executed again")])
@pytest.mark.parametrize("tool", ["adyen.payment", "adyen.payment.change"])
def test_what_became_of_a_lost_answer_is_told_by_adyens_webhook(platform, tool, success, outcome):
    world = platform.world
    write = Write(world, dataclasses.replace(case_of(tool), headers=KEY))
    world.double.lose_answers = 1
    lost = write.send()
    assert lost.outcome == "unknown" and write.had() == 1, lost
    assert platform.notify(write.token, "psp7", success=success) == 503, "it is not known yet"
    platform.receiver.events[write.token] = lost.header("Recourse-Event")
    assert write.send().status == 409
    assert platform.notify(write.token, "psp7", success=success) == 200
    assert platform.notify(write.token, "psp7", success=success) == 200, "Adyen tells things twice"
    assert [status for status, _ in platform.receiver.said[-2:]] == [200, 200]
    world.double.forget_keys()
    answer = write.send()
    assert 200 <= answer.status < 300, answer
    assert write.had() == (1 if outcome == "executed" else 2)
    assert world.recourse.verify()["ok"]


def test_a_receivers_token_reads_nothing_and_orders_nothing_else(platform):
    for method, path in (("GET", "/events"), ("GET", "/flows"), ("POST", "/flows/none/undo")):
        assert platform.world.recourse.ask(method, path, HOOK)[0] == 403, path


def test_an_order_that_paypal_says_is_captured_was_captured_by_the_lost_call(tmp_path):
    with World("paypal", tmp_path) as world:
        write = Write(world, case_of("paypal.order.capture"))
        world.double.lose_answers = 1
        assert write.send().outcome == "unknown" and write.had() == 1
        world.double.forget_keys()
        wait_until(lambda: write.send().status // 100 == 2)
        assert write.had() == 1
        write.end()


@pytest.mark.parametrize("status", [200, 400])
def test_an_id_that_is_taken_at_linear_makes_nothing(tmp_path, status):
    with World("linear", tmp_path) as world:
        case = case_of("linear.issue.create")
        body = copy.deepcopy(case.body)
        body["variables"]["input"]["id"] = case_id = str(uuid.uuid4())
        world.double.make(f"issue {case_id}", id=case_id, archivedAt=None)
        world.double.conflict_status = status
        write = Write(world, dataclasses.replace(case, body=body))
        answer = write.send()
        assert answer.status == status and answer.outcome == "rejected", answer
        assert write.had() == 0


def test_a_calendar_that_overlooks_a_second_insert_gets_none(tmp_path):
    with World("google-calendar", tmp_path) as world:
        world.double.sees_twins = False
        write = Write(world, case_of("calendar.event.insert"))
        world.double.is_late = True
        write.send()
        world.double.is_late = False
        assert write.send().status == 409
        world.double.arrive()
        wait_until(lambda: write.send().status == 200)
        assert write.had() == 1


def an_event(double, key):
    number = str(double.number())
    double.make(f"event {number}", id=number, subject="Theirs", transactionId=key)


@pytest.mark.parametrize("seen", [(201, False), (400, True), (409, False), (409, True)])
def test_a_second_event_of_a_transaction_is_none_however_graph_says_so(tmp_path, seen):
    with World("microsoft-graph", tmp_path) as world:
        world.double.second_event = seen
        key = str(uuid.uuid4())
        case = case_of("graph.event.create")
        body = {**case.body, "transactionId": key}
        write = Write(world, dataclasses.replace(case, body=body))
        an_event(world.double, key)
        effects = len(world.double.effects)
        # A 400 is a refusal, a 409 may be one: the event is looked for, and found.
        outcome = {400: "rejected"}.get(seen[0], "executed")
        wait_until(lambda: write.send().outcome == outcome)
        assert len(world.double.effects) == effects


def test_a_transaction_that_was_lost_is_found_on_a_later_page(tmp_path):
    with World("microsoft-graph", tmp_path) as world:
        write = Write(world, case_of("graph.event.create"))
        world.double.lose_answers = 1
        write.send()
        wait_until(lambda: write.send().status // 100 == 2)
        assert write.had() == 1
        write.end()


@pytest.mark.parametrize(
    "pack, tool, members",
    [
        ("microsoft-graph", "graph.message.move", {"parentFolderId": "f-archive"}),
        ("gmail", "gmail.message.trash", {"labelIds": ["TRASH"]}),
    ],
)
def test_a_message_that_was_moved_is_found_on_a_later_page(tmp_path, pack, tool, members):
    with World(pack, tmp_path) as world:
        case = next(one for _, one in CASES if one.tool == tool and one.lists)
        for number in range(2):
            world.double.make(f"message i{number}", id=f"i{number}", isDraft=False, **members)
        world.double.page = 1
        write = Write(world, case)
        world.double.lose_answers = 1
        write.send()
        wait_until(lambda: write.send().status // 100 == 2)
        assert write.had() == 1
