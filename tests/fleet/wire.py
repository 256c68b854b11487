"""Links between the pods and the servers of their database, in a process of their own, that can be
cut.

    python3 wire.py     reads commands from the standard input, each a line of JSON that is answered
                        by one; ends when that closes
    {"link": [HOST, PORT] or PATH}    {"port": P}, where 127.0.0.1 leads there from now on
    {"cut": [P...], "how": HOW}       "reset": what is open is reset, what is new too; "silent":
                                      nothing passes; "up", "down": nothing passes to the server, or
                                      from it; "no": as before, and what was held back passes
"""

import asyncio
import json
import sys

CHUNK = 64 * 1024
CLOSES = {"reset": (), "silent": ("up", "down"), "up": ("up",), "down": ("down",), "no": ()}


class Link:
    """One way to a server, for one pod."""

    def __init__(self, target):
        self.target = target
        self.resets = False
        self.open = {"up": asyncio.Event(), "down": asyncio.Event()}
        for gate in self.open.values():
            gate.set()
        self.writers = set()

    async def listen(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    def cut(self, how):
        self.resets = how == "reset"
        for way, gate in self.open.items():
            if way in CLOSES[how]:
                gate.clear()
            else:
                gate.set()
        if self.resets:
            for writer in self.writers:
                writer.transport.abort()

    async def serve(self, reader, writer):
        if self.resets:
            writer.transport.abort()
            return
        await self.open["up"].wait()
        try:
            if isinstance(self.target, str):
                there, to_server = await asyncio.open_unix_connection(self.target)
            else:
                there, to_server = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, to_server}
        try:
            await asyncio.gather(self.pump(reader, to_server, "up"),
                                 self.pump(there, writer, "down"))  # fmt: skip
        finally:
            self.writers -= {writer, to_server}

    async def pump(self, reader, writer, way):
        try:
            while data := await reader.read(CHUNK):
                await self.open[way].wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one end has left, which ends the other
        finally:
            writer.close()


async def main():
    links, loop = {}, asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        answer = {}
        if "link" in command:
            link = Link(command["link"])
            port = await link.listen()
            links[port] = link
            answer = {"port": port}
        for port in command.get("cut", ()):
            links[port].cut(command["how"])
        print(json.dumps(answer), flush=True)


asyncio.run(main())
