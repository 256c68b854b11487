"""What Python reads in a request: by urllib, by its email package (as cgi did) and by aiohttp."""

import asyncio
import json
import urllib.parse
from email.parser import BytesParser

from aiohttp import web

NAME = "ask_sum"


def pairs(text):
    return [value for name, value in urllib.parse.parse_qsl(text, keep_blank_values=True)
            if name == NAME]  # fmt: skip


def parts(kind, body, wanted):
    message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    if not message.is_multipart():
        return []
    return [part.get_payload() for part in message.get_payload()
            if part.get_param("name", header="content-disposition") == wanted]  # fmt: skip


async def read(request):
    body = await request.read()
    kind = request.headers.get("Content-Type", "")

    async def as_bytes():
        return json.loads(body)

    values = pairs(request.query_string) + request.query.getall(NAME, [])
    method = request.method
    if kind.startswith("application/x-www-form-urlencoded"):
        values += pairs(body.decode("utf-8", "ignore"))
    try:
        form = await request.post()
        values += form.getall(NAME, [])
        method = form.get("_method", method)
    except (ValueError, LookupError, web.HTTPException):
        pass
    values += parts(kind, body, NAME)
    method = (parts(kind, body, "_method") or [method])[0]
    for reads in (as_bytes, request.json):
        try:
            sent = await reads()
        except (ValueError, LookupError):
            continue
        if isinstance(sent, dict):
            values += [sent[NAME]] if NAME in sent else []
            method = sent.get("_method", method)
    return web.json_response({"values": [str(value).strip() for value in values],
                              "method": method})  # fmt: skip


app = web.Application()
app.router.add_route("*", "/{path:.*}", read)


async def main():
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)

    await asyncio.Event().wait()


if __name__ == "__main__":

    asyncio.run(main())
