"""A ledger moves between processors: with what one program wrote the other goes on. `./dev arm64`
names the other program; elsewhere it is the same one. And between systems whose pages have other
sizes, which LMDB takes for its own."""

import os
import secrets
import subprocess

import pytest

from support import flows, rawhttp
from support.recourse import BINARY, Recourse

OTHER = os.environ.get("RECOURSE_OTHER_BIN", BINARY)
# Its bytes are negative numbers to one processor only.
BODY = '{"text": "\u00ff\u00e9\u4e16\U0001f980"}'.encode()


PAGES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
long sysconf(int name) {
  long (*real)(int) = dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_PAGESIZE ? SIZE : real(name);
}
int getpagesize(void) { return SIZE; }
"""


@pytest.mark.parametrize("first, second", sorted({(BINARY, OTHER), (OTHER, BINARY)}))
def test_what_one_processor_wrote_the_other_goes_on_with(double, tmp_path, token, first, second):
    move(double, tmp_path, token, first, second)


@pytest.mark.skipif(OTHER != BINARY, reason="its libraries are another processor's")
@pytest.mark.parametrize("size", [16_384, 65_536])
def test_what_was_written_in_pages_of_one_size_is_gone_on_with_in_others(
    double, tmp_path, token, size
):
    library, program = tmp_path / "pages.so", tmp_path / "recourse"
    subprocess.run(["clang-19", "-shared", "-fPIC", f"-DSIZE={size}", "-xc", "-", "-o", library],
                   input=PAGES, text=True, check=True)  # fmt: skip
    program.write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec {BINARY} "$@"\n')
    program.chmod(0o755)
    move(double, tmp_path, token, str(program), BINARY)
    with open(tmp_path / "data" / "data.mdb", "rb") as file:
        assert int.from_bytes(file.read(44)[40:], "little") == min(size, 32_768), "LMDB's largest"


def move(double, tmp_path, token, first, second):
    fields = {**rawhttp.traced(secrets.token_hex(16)), "Content-Type": "application/json"}
    paths = done, lost, later = [f"/plain/{token}-{name}" for name in ("done", "lost", "later")]

    def post(path):
        return rawhttp.call(running.port, "POST", path, headers=fields, body=BODY)

    def move_to(binary):
        before = running.events()
        assert len(before) > 5
        running.kill()
        running.binary = binary
        running.start()
        assert running.events()[: len(before)] == before

    running = Recourse(tmp_path, flows.policy(double))
    running.binary = first
    with running:
        agent = flows.Shop(running, double).agent(token)
        agent.does("orders", "payments")
        answered = post(done)
        assert answered.status == 201
        double.script("POST", lost, ["read", "execute", {"gate": token}, "answer"], 1)
        with rawhttp.Connection(running.port) as client:
            client.send(rawhttp.render("POST", lost, "shop.test", fields, BODY))
            double.await_effects(lost)
            move_to(second)
        again = post(done)
        assert again.replayed and again.body == answered.body
        told = post(lost)
        assert (told.status, told.outcome) == (409, "unknown")
        agent.breaks()
        agent.await_undone()
        assert agent.undone() == ["payments", "orders"]
        assert post(later).status == 201 and running.verify()["ok"]
        move_to(first)
        assert post(later).replayed and running.verify()["ok"]
    assert [len(double.effects(path)) for path in paths] == [1, 1, 1]
