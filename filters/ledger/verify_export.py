#!/usr/bin/env python3
"""Checks an export of the ledger with none of Recourse's code, and a signed head of it.

usage: verify_export.py EXPORT [HEAD PUBLIC_KEY]

EXPORT is what `recourse ledger export --format ndjson` printed. What stands beside `row` in its
lines is not checked: to be sure, read `row` (README.md, Bytes).
"""
import base64
import hashlib
import json
import subprocess
import sys
import tempfile


def place(name):
    """The number in a row's bytes: a shared ledger's rows are named STREAM.ROW."""
    stream, _, row = str(name).rpartition(".")
    return int(stream or 0) * 2**36 + int(row)


def check_chain(file):
    """The ledger's identity, and the hash of each row by its name."""
    hashes, whole, ends, listed, text = {}, None, {}, None, hashlib.sha256()
    for row, line in ((json.loads(line), line) for line in open(file, "rb")):
        if listed is not None:
            sys.exit("the export was changed")
        if row["kind"] == "export" and whole is not False:  # one for each stream
            begin, rows, text = row, 0, hashlib.sha256()
            previous, whole = row["base"], False
        elif row["kind"] == "end":
            whole = (row["rows"], row["head"], row["sha256"]) == (rows, previous, text.hexdigest())
            print(f"{'ok' if whole else 'BROKEN'}: {rows} rows, head {previous}")
            ends[begin.get("stream")] = rows, previous
            if not whole:
                break
        elif row["kind"] == "streams":
            listed = {one["stream"]: (one["rows"], one["head"]) for one in row["streams"]}
        else:
            data, rows = base64.b64decode(row["row"], validate=True), rows + 1
            number = place(begin["after"]) + rows
            follows = not whole and data[40:72].hex() == previous
            previous = hashes[row["number"]] = hashlib.sha256(data).hexdigest()
            named = (int.from_bytes(data[8:16], "little"), place(row["number"]), row["hash"])
            if not follows or named != (number, number, previous):
                sys.exit(f"row {row['number']}: the chain is broken")
        text.update(line)
    if not whole or None not in ends and ends != listed:
        for stream in sorted(set(listed or {}) - set(ends)):
            print(f"BROKEN: stream {stream} is missing")
        sys.exit("the export was cut or changed")
    return begin["ledger"], hashes


def check_head(file, public_key, ledger, hashes):
    head = json.load(open(file))
    said = "recourse-head-1 {ledger} {row} {hash} {time}".format(**head).encode()
    with tempfile.NamedTemporaryFile() as text, tempfile.NamedTemporaryFile() as signature:
        text.write(said), text.flush()
        signature.write(base64.urlsafe_b64decode(head["signature"] + "==")), signature.flush()
        verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public_key]
        subprocess.run([*verify, "-in", text.name, "-sigfile", signature.name], check=True)
    if (head["ledger"], head["hash"]) != (ledger, hashes.get(head["row"])):
        sys.exit("the export does not hold the signed head")


if len(sys.argv) not in (2, 4):
    sys.exit(__doc__)
chain = check_chain(sys.argv[1])
if len(sys.argv) == 4:
    check_head(*sys.argv[2:], *chain)
