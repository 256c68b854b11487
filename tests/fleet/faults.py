"""What befalls a fleet and its database, drawn by a seed: one at a time, or two."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

from support.waiting import lasts

PAIRS = 0.3


class Faults:
    """`of_pods`, `of_database`: {name: function of the dice}; `histories` are told when anything
    may fail; `reads` when the database may."""

    def __init__(self, dice, of_pods, of_database, histories, reads):
        self.dice = dice
        self.of_pods, self.of_database = of_pods, of_database
        self.histories, self.reads = histories, reads
        self.done, self.failures = {}, []
        # A server ends with the thread that started it: these live to the end.
        self.hands = ThreadPoolExecutor(2)

    def strike(self, until, await_rest):
        """One after the other, until then; `await_rest` waits until everything works again."""
        kinds = [kind for kind in (self.of_pods, self.of_database) if kind]
        while time.monotonic() < until and not self.failures:
            lasts(self.dice.uniform(1.0, 4.0))  # calls without a fault are what this is about
            kind = self.dice.choice(kinds)
            names = [self.dice.choice(sorted(kind))]
            if self.dice.random() < PAIRS:
                other = self.dice.choice(kinds)
                names.append(self.dice.choice(sorted(other)))
            if len(set(names) & set(self.of_database)) > 1:
                names = names[:1]  # what one does to a server another would not find
            self.befall(list(dict.fromkeys(names)), await_rest)

    def befall(self, names, await_rest):
        begun = time.monotonic()
        print(f"    {' and '.join(names)}", end="", flush=True)
        for history in self.histories:
            history.add({"t": "down", "what": names})
        self.reads.database_is_faulty = any(name in self.of_database for name in names)
        for running in [self.hands.submit(self.guard, name, self.dice.random()) for name in names]:
            running.result()
        if not self.failures:
            await_rest()
        self.reads.database_is_faulty = False
        for history in self.histories:
            history.add({"t": "up"})
        for name in names:
            self.done[name] = self.done.get(name, 0) + 1
        print(f": all works again after {time.monotonic() - begun:.1f} s", flush=True)

    def guard(self, name, seed):
        does = {**self.of_pods, **self.of_database}[name]
        try:
            does(random.Random(seed))
        except Exception as error:  # noqa: BLE001: told, and ends the run
            self.failures.append(f"{name}: {error!r}")
