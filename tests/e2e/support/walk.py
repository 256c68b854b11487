"""A walk through states of the page: axe looks at each, in light and in dark, at a desk and on a
phone."""

from support.desk import LOADED

DESK = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
SHAPES = [{**DESK, "dark": False}, {**DESK, "dark": True}]


class Walk:
    """A browser in which every state is looked at by axe in all shapes."""

    def __init__(self, browser):
        self.browser, self.found, self.seen = browser, [], []

    def look(self, what):
        self.seen.append(what)
        # A phone is dark at each second state: what differs on it is where things stand.
        phone = {**PHONE, "dark": len(self.seen) % 2 == 0}
        for shape in (*SHAPES, phone):
            self.browser.ask("size", width=shape["width"], height=shape["height"])
            self.browser.ask("scheme", dark=shape["dark"])
            self.found += [f"{what} {shape}: {one}" for one in self.browser.axe()]
        self.browser.ask("size", **DESK)

    def at(self, desk, place, ready=LOADED):
        desk.go(place, ready)
        self.look(place)

    def dialogs(self, buttons, ready="dialog"):
        for button in buttons:
            self.browser.click(f'button:has-text("{button}")')
            self.browser.wait(ready)
            self.look(f"dialog {button}")
            self.browser.press("Escape")
            self.browser.wait("dialog", "detached")

    def found_nothing(self):
        assert self.found == [], "\n".join(self.found[:40])
