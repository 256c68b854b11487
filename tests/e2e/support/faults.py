"""Backend faults b03-b29 as scripts of the double, with what each must lead to."""

import dataclasses

JSON = "Content-Type: application/json\r\n"
CREATED = "HTTP/1.1 201 Created\r\n" + JSON
WHOLE = CREATED + "Content-Length: %LEN%\r\n\r\n%JSON%"

UNKNOWN = ("UNCERTAIN",)
LOST = ("ANSWER_LOST",)
DONE = ("SUCCEEDED",)
REJECTED = ("REJECTED",)
NOT_SENT = ("NOT_SENT",)


@dataclasses.dataclass
class Fault:
    """`phases`: where an attempt may rest on a route that nothing can settle. `effects`: how many
    there are then. `first`: statuses that the first caller may get."""

    steps: list
    phases: tuple
    effects: int
    first: tuple
    kind: str = "plain"
    host: str = "shop.test"
    body_bytes: int = 0
    only_plain: bool = False
    alone: bool = False  # not raced: eight such bodies at a time are a test of their own
    probe: list = None  # what the first probe meets


def cut(text, end, first=(502,), phases=LOST):
    return Fault(["read", "execute", {"send": text}, end], phases, 1, first)


def plain_answer(status, reason, extra="", body="", execute=False):
    text = f"HTTP/1.1 {status} {reason}\r\n{JSON}{extra}Content-Length: {len(body)}\r\n\r\n{body}"
    return ["read", *(["execute"] if execute else []), {"send": text}]


def redirect(status):
    return plain_answer(status, "Moved", "Location: http://127.0.0.1:9/elsewhere\r\n", execute=True)


LATE = UNKNOWN + LOST
EITHER_LOST = (502, 504)

FAULTS = {
    "b04_reset_after_the_head": Fault(["rst"], UNKNOWN, 0, (502,), body_bytes=200_000),
    "b05_reset_before_executing": Fault(["read", "rst"], UNKNOWN, 0, (502,)),
    "b06_executed_then_reset": Fault(["read", "execute", "rst"], UNKNOWN, 1, (502,)),
    "b07_executed_then_closed": Fault(["read", "execute", "fin"], UNKNOWN, 1, (502,)),
    "b08_half_a_status_line": cut("HTTP/1.1 20", "fin", phases=UNKNOWN),
    "b09_head_then_silence": cut(
        CREATED + "Content-Length: %LEN%\r\n\r\n", "hang", EITHER_LOST, LATE
    ),
    "b10_half_the_body_then_closed": cut(CREATED + "Content-Length: %LEN%\r\n\r\n%HALF%", "fin"),
    "b10_half_the_body_then_reset": cut(
        CREATED + "Content-Length: %LEN%\r\n\r\n%HALF%", "rst", phases=LATE
    ),
    "b11_chunked_body_cut": cut(
        CREATED + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n8\r\n", "fin"
    ),
    "b12_body_ended_by_closing": cut(CREATED + "\r\n%HALF%", "fin"),
    "b13_trickle_beyond_the_deadline": Fault(
        ["read", "execute", {"trickle": WHOLE, "every": 0.08}], LATE, 1, EITHER_LOST
    ),
    "b14_executed_and_never_answered": Fault(["read", "execute", "hang"], UNKNOWN, 1, (504,)),
    "b14_neither_executed_nor_answered": Fault(["read", "hang"], UNKNOWN, 0, (504,)),
    "b15_answered_after_the_deadline": Fault(
        ["read", "execute", {"sleep": 5.5}, "answer"], UNKNOWN + DONE, 1, (504,)
    ),
    "b17_500_executed": Fault(
        plain_answer(500, "Oops", body='{"error":1}', execute=True), UNKNOWN, 1, (500,)
    ),
    "b18_500_not_executed": Fault(
        plain_answer(500, "Oops", body='{"error":1}'), UNKNOWN, 0, (500,)
    ),
    "b19_503_with_retry_after": Fault(
        plain_answer(503, "Busy", "Retry-After: 1\r\n"), UNKNOWN, 0, (503,)
    ),
    "b19_503_listed_as_not_executed": Fault(
        plain_answer(503, "Busy", "Retry-After: 1\r\n"), NOT_SENT + REJECTED, 0, (503,), "listed",
        only_plain=True,
    ),
    "b20_429": Fault(
        plain_answer(429, "Slow down", "Retry-After: 1\r\n"), NOT_SENT, 0, (429,), only_plain=True
    ),
    "b21_success_condition_is_false": Fault(
        plain_answer(200, "OK", body='{"ok":false}', execute=True), UNKNOWN, 1, (200,), "judged",
        only_plain=True,
    ),
    "b22_success_condition_has_no_json": Fault(
        plain_answer(200, "OK", body="<html>", execute=True), LATE, 1, (200,), "judged",
        only_plain=True,
    ),
    "b23_success_condition_has_no_body": Fault(
        plain_answer(200, "OK", execute=True), LATE, 1, (200,), "judged", only_plain=True
    ),
    "b24_302": Fault(redirect(302), UNKNOWN, 1, (302, 502)),
    "b24_303": Fault(redirect(303), UNKNOWN, 1, (303, 502)),
    "b24_307": Fault(
        plain_answer(307, "Moved", "Location: http://127.0.0.1:9/elsewhere\r\n"), REJECTED, 0,
        (307, 502), only_plain=True,
    ),
    "b25_100_then_silence": Fault(
        ["read", {"send": "HTTP/1.1 100 Continue\r\n\r\n"}, "hang"], UNKNOWN, 0, (504,)
    ),
    "b26_103_then_201": Fault(
        ["read", "execute", {"send": "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + WHOLE}],
        DONE, 1, (201,),
    ),
    "b27_101": Fault(
        ["read", "execute", {"send": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n"
                                     "Connection: upgrade\r\n\r\n"}, "hang"],
        UNKNOWN, 1, (502,),
    ),
    "b28_a_second_answer_after_the_first": Fault(
        ["read", "execute", {"send": WHOLE + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"}],
        DONE, 1, (201,),
    ),
    "b29_early_413": Fault(
        [{"send": "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"}, {"sleep": 0.2}, "hang"],
        REJECTED, 0, (413,), body_bytes=4_000_000, only_plain=True,
    ),
}  # fmt: skip

# A body that fills every buffer on the way: the backend's end of it is seen while it is being sent.
FAULTS |= {
    f"{name}_large_body": dataclasses.replace(
        FAULTS[name], kind="large", body_bytes=7_900_000, only_plain=True, alone=True
    )
    for name in (
        "b04_reset_after_the_head",
        "b07_executed_then_closed",
        "b08_half_a_status_line",
        "b14_executed_and_never_answered",
        "b14_neither_executed_nor_answered",
    )
}
