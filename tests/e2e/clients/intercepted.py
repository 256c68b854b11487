"""intercepted.py LIBRARY URL: one POST; the proxy and the CA come from the environment alone."""

import asyncio
import json
import sys

LIBRARY, URL = sys.argv[1:]
BODY = b'{"a": 1}'
JSON = {"Content-Type": "application/json"}


def urllib():
    import urllib.request

    with urllib.request.urlopen(urllib.request.Request(URL, BODY, JSON)) as answer:
        return answer.status


def requests():
    import requests

    return requests.post(URL, data=BODY, headers=JSON).status_code


def httpx():
    import httpx

    return httpx.post(URL, content=BODY, headers=JSON).status_code


def aiohttp():
    import aiohttp

    async def call():
        async with aiohttp.ClientSession(trust_env=True) as session:
            async with session.post(URL, data=BODY, headers=JSON) as answer:
                return answer.status

    return asyncio.run(call())


CALLS = {call.__name__: call for call in (urllib, requests, httpx, aiohttp)}
print(json.dumps({"status": CALLS[LIBRARY]()}))
