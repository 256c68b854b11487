"""Agents as they are: they reuse connections, pipeline, dawdle, break off and leave.

`Client.call` makes one call in one of the MANNERS and leaves what became of it in the history.
"""

import random
import select

from support import rawhttp
from support.history import Read
from support.waiting import lasts

MANNERS = {
    "fresh": 5,  # a connection of its own
    "kept": 5,  # the connection of the call before
    "half_closed": 1,  # says at once that no further request comes
    "pieces": 1,  # sends the request in pieces
    "lazy": 1,  # looks at the answer late, through a small buffer
    "pipelined": 1,  # behind a read, without waiting for its answer
    "gone": 1,  # closes without waiting for the answer
    "reset": 1,  # the same, with a RST
    "cut": 1,  # breaks off within the request
}


class Client:
    """One agent. Not thread-safe; several may share a history."""

    def __init__(self, recourse, history, seed, timeout):
        self.recourse = recourse
        self.history = history
        self.random = random.Random(seed)
        self.timeout = timeout
        self.kept = None  # (process id, connection)

    def any_manner(self):
        return self.random.choices(list(MANNERS), list(MANNERS.values()))[0]

    def call(self, request, manner):
        """The answer; None when it was lost or not waited for."""
        number, data = self.history.invoke(request)
        try:
            if manner in ("gone", "reset", "cut"):
                self.leave(data, manner)
                self.history.left(number, request, manner == "cut")
                return None
            answer = self.exchange(request, data, manner)
        except (OSError, rawhttp.Cut) as error:
            self.drop_kept()
            self.history.lost(number, request, error)
            return None
        self.history.returned(number, request, answer)
        return answer

    def leave(self, data, manner):
        with rawhttp.Connection(self.recourse.port, self.timeout) as connection:
            if manner == "cut":
                data = data[: self.random.randrange(1, len(data))]
            connection.send_as_far_as_taken(data)
            lasts(self.random.choice((0, 0.002, 0.05)))  # its manner: any moment is as good
            if manner == "reset" or self.random.random() < 0.5:
                connection.reset()

    def exchange(self, request, data, manner):
        if manner == "kept":
            connection = self.kept_connection()
            connection.send(data)
            answer = connection.response(request.method)
            if (answer.header("Connection") or "").lower() == "close":
                self.drop_kept()
            return answer
        small = 2048 if manner == "lazy" else None
        with rawhttp.Connection(self.recourse.port, self.timeout, small) as connection:
            if manner == "pieces":
                self.send_in_pieces(connection, data)
            elif manner == "pipelined":
                return self.behind_a_read(connection, request, data)
            else:
                connection.send(data)
            if manner == "half_closed":
                connection.finish_sending()
            if manner == "lazy":
                lasts(0.05)  # its manner: it looks late
            return connection.response(request.method)

    def send_in_pieces(self, connection, data):
        cuts = sorted(self.random.randrange(1, len(data)) for _ in range(3))
        for begin, end in zip([0, *cuts], [*cuts, len(data)]):
            connection.send(data[begin:end])
            lasts(0.003)  # its manner: one piece is read before the next is there

    def behind_a_read(self, connection, request, data):
        read = Read("/read/first")
        number, first = self.history.invoke(read)
        try:
            connection.send(first + data)
            answer = connection.response("GET")
        except (OSError, rawhttp.Cut) as error:
            self.history.lost(number, read, error)
            raise
        self.history.returned(number, read, answer)
        return connection.response(request.method)

    def kept_connection(self):
        if self.kept is not None:
            pid, connection = self.kept
            # What the peer has closed in the meantime is no use.
            if pid == self.recourse.pid and not select.select([connection.socket], [], [], 0)[0]:
                return connection
            self.drop_kept()
        connection = rawhttp.Connection(self.recourse.port, self.timeout)
        self.kept = (self.recourse.pid, connection)
        return connection

    def drop_kept(self):
        if self.kept is not None:
            self.kept[1].close()
            self.kept = None
