"""Certificates for tests, made with the openssl command when a test needs them.

A `Maker` is one CA. Keys are P-256, because making RSA keys takes longer than the tests.
"""

import datetime
import pathlib
import subprocess

CONFIG = """\
[ca]
default_ca = authority
[authority]
dir = {dir}
database = {dir}/index.txt
new_certs_dir = {dir}
rand_serial = yes
default_md = sha256
policy = anything
copy_extensions = none
unique_subject = no
[anything]
commonName = optional
"""
PAST = ("20200101000000Z", "20200102000000Z")
FUTURE = ("20480101000000Z", "20490101000000Z")
NOW = ("20240101000000Z", "20470101000000Z")


def openssl(*arguments):
    done = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (arguments, done.stderr)


class Identity:
    """A certificate with its key, both PEM files; `both` holds the two in one."""

    def __init__(self, cert, key):
        self.cert, self.key = cert, key
        self.both = cert.with_suffix(".both.pem")
        self.both.write_text(cert.read_text() + key.read_text())


class Maker:
    def __init__(self, directory, name="test CA"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "openssl.cnf"
        self.config.write_text(CONFIG.format(dir=self.directory))
        (self.directory / "index.txt").write_text("")
        self.key = self.directory / "ca.key"
        self.cert = self.directory / "ca.pem"
        openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", self.key, "-out", self.cert, "-subj", f"/CN={name}", "-days", "36500",
            "-addext", "keyUsage=critical,keyCertSign",
        )  # fmt: skip

    def issue(self, name, san="DNS:localhost,IP:127.0.0.1", valid=NOW, usage=None, subject=None):
        """A certificate with these subject alternative names (None: without any)."""
        base = self.directory / name
        key, cert = base.with_suffix(".key"), base.with_suffix(".pem")
        request, extensions = base.with_suffix(".csr"), base.with_suffix(".ext")
        lines = ["basicConstraints=CA:FALSE"]
        if san:
            lines.append(f"subjectAltName={san}")
        if usage:
            lines.append(f"extendedKeyUsage={usage}")
        extensions.write_text("\n".join(lines) + "\n")
        openssl(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", key, "-out", request, "-subj", f"/CN={subject or name}",
        )  # fmt: skip
        openssl(
            "ca", "-batch", "-notext", "-config", self.config, "-cert", self.cert,
            "-keyfile", self.key, "-in", request, "-out", cert, "-extfile", extensions,
            "-startdate", valid[0], "-enddate", valid[1],
        )  # fmt: skip
        return Identity(cert, key)


def authority(directory, name, begun, ends):
    """(certificate, key) of a CA as injectors make theirs, by days from now."""
    maker = Maker(directory / f"maker-{name}")
    key, asked, made = (directory / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
    extensions = directory / f"{name}.ext"
    extensions.write_text("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
                          "subjectKeyIdentifier=hash\n")  # fmt: skip
    days = [(datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=one)).strftime(
        "%Y%m%d%H%M%SZ") for one in (begun, ends)]  # fmt: skip
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", key, "-out", asked, "-subj", f"/O=Recourse/CN={name}")  # fmt: skip
    openssl("ca", "-selfsign", "-batch", "-notext", "-config", maker.config, "-keyfile", key,
            "-in", asked, "-out", made, "-extfile", extensions,
            "-startdate", days[0], "-enddate", days[1])  # fmt: skip
    return made.read_text(), key.read_text()


def show(directory, **identities):
    """A directory of these identities for the TLS ports of the double."""
    shown = pathlib.Path(directory) / "shown"
    shown.mkdir()
    for name, identity in identities.items():
        identity.both.rename(shown / f"{name}.both.pem")
    return shown
