"""An issuer of tokens (OIDC), made of the openssl command."""

import base64
import json
import subprocess
import time

from .certificates import openssl


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Keys of one kind, by kid, and tokens signed with them; all by the openssl command."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()

    def make(self, kid, kind):
        key = self.directory / f"{kid}.pem"
        option = "rsa_keygen_bits:2048" if kind == "RSA" else "ec_paramgen_curve:P-256"
        openssl("genpkey", "-algorithm", kind, "-pkeyopt", option, "-out", key)
        return self.jwk(kid, kind, key)

    def jwk(self, kid, kind, key):
        der = subprocess.run(
            ["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"],
            capture_output=True, check=True, timeout=120,
        ).stdout  # fmt: skip
        if kind == "EC":
            return {"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig",
                    "x": b64(der[-64:-32]), "y": b64(der[-32:])}  # fmt: skip
        modulus = subprocess.run(
            ["openssl", "rsa", "-in", key, "-noout", "-modulus"],
            capture_output=True, check=True, timeout=120,
        ).stdout.decode().strip().partition("=")[2]  # fmt: skip
        return {"kty": "RSA", "kid": kid, "alg": "RS256", "n": b64(bytes.fromhex(modulus)),
                "e": "AQAB"}  # fmt: skip

    def token(self, kid, algorithm="RS256", **changed):
        claims = {"iss": "https://login.example", "aud": ["other", "recourse"], "sub": "u1",
                  "email": "alice@example.com", "groups": ["sre"], "exp": int(time.time()) + 600,
                  **changed}  # fmt: skip
        head = {"alg": algorithm, "kid": kid, "typ": "JWT"}
        text = b64(json.dumps(head).encode()) + "." + b64(json.dumps(claims).encode())
        made = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self.directory / f"{kid}.pem"],
            input=text.encode(), capture_output=True, check=True, timeout=120,
        ).stdout  # fmt: skip
        return text + "." + b64(raw_signature(made) if algorithm == "ES256" else made)


def raw_signature(der):
    """R and S of a DER signature, 32 bytes each."""
    first = 4 + der[3]
    r, s = der[4:first], der[first + 2 :]
    return b"".join(part.lstrip(b"\0").rjust(32, b"\0") for part in (r, s))
