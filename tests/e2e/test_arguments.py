"""What makes two calls the same: arguments in the byte variants that real clients send."""

import pytest

from support import rawhttp
from support.recourse import run_cli

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
FORM = "application/x-www-form-urlencoded"
BYTES = "application/octet-stream"


def post(proxy, path, body, trace=TRACE, **headers):
    fields = rawhttp.traced(trace) if trace else {}
    fields.update({name.replace("_", "-"): value for name, value in headers.items()})
    return rawhttp.call(proxy.port, "POST", path, headers=fields, body=body)


@pytest.mark.parametrize(
    "first, second",
    [
        ('{"amount":1.0,"note":"é"}', '{ "note": "\\u00e9", "amount": 1 }'),
        ('{"a":100,"b":[1,2]}', '{"b":[1,2],"a":1e2}'),
    ],
)
def test_the_same_arguments_in_other_bytes_are_the_same_call(proxy, double, token, first, second):
    path, json_type = f"/plain/{token}", "application/json"
    assert post(proxy, path, first.encode(), Content_Type=json_type).status == 201
    assert post(proxy, path, second.encode(), Content_Type=json_type).replayed
    assert len(double.effects(path)) == 1


@pytest.mark.parametrize(
    "first, second",
    [
        ('{"id":9007199254740993}', '{"id":9007199254740992}'),
        ('{"a":"1"}', '{"a":1}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
    ],
)
def test_other_arguments_are_another_call(proxy, double, token, first, second):
    path, json_type = f"/plain/{token}", "application/json"
    assert post(proxy, path, first.encode(), Content_Type=json_type).status == 201
    other = post(proxy, path, second.encode(), Content_Type=json_type)
    assert other.status == 201 and not other.replayed
    assert len(double.effects(path)) == 2


@pytest.mark.parametrize(
    "method, field, first, second",
    [
        ("PUT", "Content-Range", "bytes 0-9/20", "bytes 10-19/20"),  # pieces of one upload
        ("PATCH", "Upload-Offset", "0", "10"),
        ("POST", "Upload-Metadata", "filename YQ==", "filename Yg=="),
        ("PUT", "X-Amz-Copy-Source", "/a/1", "/a/2"),
        ("MOVE", "Destination", "/a", "/b"),
        ("POST", "Dropbox-API-Arg", '{"path":"/a"}', '{"path":"/b"}'),
        ("POST", "X-Amz-Target", "DynamoDB_20120810.GetItem", "DynamoDB_20120810.DeleteItem"),
        ("POST", "X-TC-Action", "StopInstances", "TerminateInstances"),
        ("PATCH", "Content-Type", "application/merge-patch+json", "application/json-patch+json"),
    ],
)
def test_a_field_that_says_what_a_call_does_is_an_argument(
    proxy, double, token, method, field, first, second
):
    path = f"/fields/{token}"

    def send(value):
        fields = {"Content-Type": "application/json", **rawhttp.traced(TRACE), field: value}
        return rawhttp.call(proxy.port, method, path, headers=fields, body=b'{"Key":1}')

    answers = [send(value) for value in (first, second)]
    assert [answer.status for answer in answers] == [201] * 2
    assert not answers[1].replayed and answers[0].body != answers[1].body
    assert send(second).replayed and len(double.effects(path)) == 2


def test_explain_names_the_fields_that_are_arguments(proxy):
    fields = ["Content-Range: bytes 0-9/20", "Prefer: return=minimal, tx=rollback",
              "Content-Type: application/merge-patch+json", "Accept: */*"]  # fmt: skip
    told = run_cli("policy", "explain", proxy.policy_path, "POST shop /plain/1",
                   *(word for field in fields for word in ("--header", field)))  # fmt: skip
    counted = "normalized, header content-range, header content-type, header prefer\n"
    assert counted in told.stdout, told.stdout


@pytest.mark.parametrize(
    "body", ['{"a":1,"a":2}', '{"a":', "\ufeff{}", '{"a":NaN}', '{"a":"\\ud800"}']
)
def test_arguments_with_two_readings_are_refused(proxy, double, token, body):
    path = f"/plain/{token}"
    answer = post(proxy, path, body.encode(), Content_Type="application/json")
    assert answer.status in (400, 415, 422) and answer.json()["outcome"] == "not_executed"
    assert double.requests(path) == []


def parts(boundary, value):
    field = f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{value}\r\n'
    return f"{field}--{boundary}--\r\n".encode()


@pytest.mark.parametrize(
    "first, same, other",
    [
        ((FORM, b"a=1&b=2"), (FORM, b"b=%32&a=1"), (FORM, b"a=1&b=3")),
        ((BYTES, b"\xff\x00\x01"), (BYTES, b"\xff\x00\x01"), (BYTES, b"\xff\x00\x02")),
        (
            ("multipart/form-data; boundary=xx", parts("xx", 1)),
            ("multipart/form-data; boundary=yy", parts("yy", 1)),
            ("multipart/form-data; boundary=xx", parts("xx", 2)),
        ),
    ],
    ids=["form", "bytes", "multipart"],
)
def test_bodies_that_are_not_json_are_compared_by_their_meaning(
    proxy, double, token, first, same, other
):
    path = f"/plain/{token}"
    answers = [
        post(proxy, path, body, Content_Type=kind) for kind, body in (first, same, other)
    ]
    assert [(a.status, a.replayed) for a in answers] == [(201, False), (201, True), (201, False)]
    assert len(double.effects(path)) == 2


def test_the_query_is_part_of_the_call(proxy, double, token):
    path = f"/plain/{token}"
    assert post(proxy, path + "?page=1", {"a": 1}).status == 201
    assert post(proxy, path + "?page=1", {"a": 1}).replayed
    assert not post(proxy, path + "?page=2", {"a": 1}).replayed
    assert len(double.effects(path)) == 2
