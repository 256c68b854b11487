"""Programs that run for as long as this process, and commands beside them."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support.waiting import wait_until  # noqa: E402

SECONDS_MAX = 300  # only ends what hangs


class NotRun(Exception):
    """A case needs what is not here; the text says what."""


def run(*command, check=True, **more):
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          **{"timeout": SECONDS_MAX, **more})  # fmt: skip
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


class Programs:
    """What they say is in files of `directory`."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.started = []

    def start(self, *command, env=None):
        name = pathlib.Path(command[0]).name
        with open(self.directory / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(env or {})}, start_new_session=True,
            )  # fmt: skip
        self.started.append((name, process))
        return process

    def await_true(self, holds):
        """Waits until `holds()` is true, while everything runs."""

        def found():
            for name, process in self.started:
                assert process.poll() is None, f"{name} ended: {self.last_words(name)}"
            return holds()

        return wait_until(found, lambda: "it did not come to be", SECONDS_MAX)

    def last_words(self, name):
        return "\n".join((self.directory / f"{name}.log").read_text().splitlines()[-20:])
