"""The policy that most tests run under.

Paths are `/KIND/TOKEN`: each test takes a token of its own, so that tests share one backend without
meeting, and the path alone tells which intent a request, an effect or an event belongs to.
"""

STANDARD = """\
version: 1
unlisted: {{ reads: pass, writes: guard }}
ledger: {{ keep_headers: [ X-Receipt, X-Fine ]{ledger} }}
backends:
  shop:   {{ url: "{url}", hosts: [ shop.test, 127.0.0.1 ], timeout: {timeout},
            connect_timeout: 30s }}
  keyed:
    {{ url: "{keyed_url}", hosts: [ keyed.test ], key_header: Idempotency-Key, timeout: {timeout},
      connect_timeout: 30s }}
{backends}tools:
  plain.create:
    match: POST shop /plain/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: none
    reason: a row of a test is never undone
  probed.create:
    match: POST shop /probed/{{token}}
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /probed/{{path.token}}?client_ref={{body#/client_ref}}"
      happened: answer.body#/items/0/id
      absent_after: {absent_after}
    undo: none
    reason: a row of a test is never undone
  keyed.create:
    match: POST keyed /keyed/{{token}}
    effect: write
    external_ref: answer.body#/id
    undo: none
    reason: a row of a test is never undone
  read.upload:
    match: POST shop /read/upload
    effect: read
{extra}"""


def standard(double, timeout="60s", absent_after="3s", extra_tools="", ledger="", backends=""):
    """The policy over a double; `timeout` and `absent_after` as the policy writes durations,
    `ledger` further words of that section, `backends` and `extra_tools` further lines."""
    return STANDARD.format(
        url=double.url,
        keyed_url=double.keyed_url,
        timeout=timeout,
        absent_after=absent_after,
        extra=extra_tools,
        backends=backends,
        ledger=ledger and f", {ledger}",
    )

OBSERVED = """\
version: 1
mode: {mode}
unlisted: {{ reads: deny, writes: {unlisted} }}
backends:
  shop: {{ url: "{url}", hosts: [ shop.test, 127.0.0.1 ], timeout: {timeout},
          connect_timeout: 30s }}
tools:
  orders.create:
    match: POST shop /orders/{{token}}
    effect: write
    identity: [ body#/cart ]
    external_ref: answer.body#/id
    settle: {{ request: "GET /orders/{{path.token}}?client_ref={{body#/client_ref}}",
              happened: answer.body#/items/0/id }}
    undo: {{ request: "DELETE /orders/{{external_ref}}" }}
  mail.send:
    match: POST shop /mail/{{token}}
    effect: write
    undo: none
    approval: {{ by: [ team-support ] }}
  rows.add:
    match: POST shop /rows/{{token}}
    effect: write
    scope: header:X-Run
    undo: none
    reason: rows may stay
"""


def observed(url, mode="observe", unlisted="deny", timeout="60s"):
    """A policy with every kind of rule that observe mode has a verdict for."""
    return OBSERVED.format(url=url, mode=mode, unlisted=unlisted, timeout=timeout)
