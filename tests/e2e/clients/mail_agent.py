"""An agent with one tool, as people write them: it posts a mail, tries again where the connection
breaks or the server asks for patience, and follows a 202 to its end. It knows nothing of what
stands between it and the mail server, and does what it is told in words, as a model does.

    python3 mail_agent.py URL JSON           prints {"status": ..., "told": [...], "result": ...}
"""

import json
import sys
import time
from urllib.parse import urljoin

import requests

TRIES = 3000
PAUSE = 0.2


def patiently(method, url, told, **more):
    """The first answer that is more than "not yet"."""
    for _ in range(TRIES):
        try:
            answer = requests.request(method, url, timeout=900, **more)
        except requests.RequestException:
            told.append("broken")
            time.sleep(PAUSE)
            continue
        told.append(answer.status_code)
        if answer.status_code not in (409, 429, 503) or "Retry-After" not in answer.headers:
            return answer
        time.sleep(PAUSE)
    raise SystemExit("the server never had an answer")


def send_mail(url, mail, told):
    answer = patiently("POST", url, told, json=mail)
    if answer.status_code != 202:
        return answer.status_code, answer.json()
    place = urljoin(url, answer.headers["Location"])
    while "Retry-After" in (answer := patiently("GET", place, told)).headers:
        time.sleep(PAUSE)
    document = answer.json()
    if "make the same call again" in document.get("message", ""):
        return send_mail(url, mail, told)
    return document.get("http_status"), document.get("answer", document)


def main():
    told = []
    status, result = send_mail(sys.argv[1], json.loads(sys.argv[2]), told)
    print(json.dumps({"status": status, "told": told, "result": result}))


if __name__ == "__main__":
    main()
