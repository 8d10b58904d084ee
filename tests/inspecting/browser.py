"""A headless Chromium that a test opens pages in, clicks and types: over the pipe of its DevTools protocol.

What a page says in the console, what it throws and what it asks a network for is recorded. Mouse and keyboard are those
of the browser, not events that a script makes.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

__all__ = ["CHROMIUM", "Page", "needs_chromium", "open_browser"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed here")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip
SECONDS = 60.0

# The keys that tests press and that are no characters, with their codes.
KEYS = {"Escape": 27, "Enter": 13, "Tab": 9, "Backspace": 8}

# Becomes the browser, which reads from descriptor 3 and writes to 4; the pipes may be these two the other way round.
AS_3_AND_4 = """import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in enumerate(ends, 3):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""

Json = object


@dataclass
class Pipe:
    """Messages to the browser and from it: JSON, each with a zero byte behind it."""

    to_browser: int
    from_browser: int
    unread: bytes = b""
    sent: int = 0
    events: list[dict[str, Json]] = field(default_factory=list)

    def ask(self, method: str, session: str | None = None, **parameters: Json) -> dict[str, Json]:
        """What the browser answers; events that come before are kept."""
        self.sent += 1
        message: dict[str, Json] = {"id": self.sent, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        _write_all(self.to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            answer = self._next(end)
            assert answer is not None, f"no answer to {method} within {SECONDS} s"
            if answer.get("id") != self.sent:
                self.events.append(answer)
                continue
            assert "error" not in answer, (method, answer["error"])
            return answer["result"]  # type: ignore[return-value]

    def wait_for(self, method: str) -> None:
        """Returns once such an event has come."""
        end = time.monotonic() + SECONDS
        while not any(event.get("method") == method for event in self.events):
            event = self._next(end)
            assert event is not None, f"no {method} within {SECONDS} s"
            self.events.append(event)

    def _next(self, end: float) -> dict[str, Json] | None:
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            read = os.read(self.from_browser, 1 << 20)
            assert read, "the browser has ended"
            self.unread += read
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)  # type: ignore[no-any-return]


@dataclass
class Page:
    """One page of the browser."""

    pipe: Pipe
    session: str

    def ask(self, method: str, **parameters: Json) -> dict[str, Json]:
        return self.pipe.ask(method, self.session, **parameters)

    def open(self, address: str) -> None:
        """Loads the page, and waits until it is loaded; forgets what was recorded before."""
        self.pipe.events.clear()
        self.ask("Page.navigate", url=address)
        self.pipe.wait_for("Page.loadEventFired")

    def evaluate(self, script: str) -> Json:
        """The value of a JavaScript expression; of a promise, what it comes to. What it throws fails."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")  # type: ignore[attr-defined]

    def wait_until(self, script: str) -> None:
        """Returns once the expression is true."""
        end = time.monotonic() + SECONDS
        while not self.evaluate(script):
            assert time.monotonic() < end, f"{script} is not true after {SECONDS} s"
            time.sleep(0.02)

    def go_offline(self) -> None:
        """From here on no network is there, not even this machine's own."""
        self.ask(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def resize(self, width: int, height: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> None:
        """Writes what can be seen as a PNG."""
        path.write_bytes(base64.b64decode(str(self.ask("Page.captureScreenshot")["data"])))

    def centre_of(self, selector: str) -> tuple[float, float]:
        """Where the middle of the first such element is, scrolled to."""
        script = f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{ block: "nearest" }}); const r = e.getBoundingClientRect();
            return [r.left + r.width / 2, r.top + r.height / 2]; }})()"""
        x, y = self.evaluate(script)  # type: ignore[misc]
        return x, y

    def click(self, at: str | tuple[float, float], times: int = 1) -> None:
        """Clicks an element, by its selector, or a point."""
        x, y = self.centre_of(at) if isinstance(at, str) else at
        self.mouse("mouseMoved", x, y)
        for count in range(1, times + 1):
            for what in ("mousePressed", "mouseReleased"):
                self.mouse(what, x, y, button="left", clickCount=count)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, button="left", clickCount=1)
        for part in (0.25, 0.5, 0.75, 1.0):
            x, y = (a + (b - a) * part for a, b in zip(start, end, strict=True))
            self.mouse("mouseMoved", x, y, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def wheel(self, at: tuple[float, float], turn: float) -> None:
        """Turns the wheel; a negative turn is away from the user."""
        self.mouse("mouseWheel", *at, deltaX=0, deltaY=turn)

    def mouse(self, what: str, x: float, y: float, **more: Json) -> None:
        self.ask("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        for character in text:
            self.ask("Input.dispatchKeyEvent", type="char", text=character)

    def press(self, key: str) -> None:
        """Presses one key."""
        text: Mapping[str, Json] = {} if key in KEYS else {"text": key}
        code = KEYS.get(key, 0)
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def complaints(self) -> list[str]:
        """Every message of the console and every error since the page was opened."""
        self.evaluate("0")
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.pipe.events if event.get("method") in methods]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened, its own among them."""
        self.evaluate("0")
        sent = [event["params"] for event in self.pipe.events if event.get("method") == "Network.requestWillBeSent"]
        return [str(each["request"]["url"]) for each in sent]  # type: ignore[index]


@contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """A browser whose profile is in the folder, with one empty page of 1400 by 900 pixels."""
    assert CHROMIUM is not None
    inner, outer = os.pipe(), os.pipe()
    command = [sys.executable, "-c", AS_3_AND_4, str(inner[0]), str(outer[1]), CHROMIUM, *FLAGS]
    command.append(f"--user-data-dir={folder / 'browser'}")
    environment = {**os.environ, "HOME": str(folder)}
    with subprocess.Popen(
        command, pass_fds=(inner[0], outer[1]), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        os.close(inner[0])
        os.close(outer[1])
        try:
            yield _page_of(Pipe(inner[1], outer[0]))
        finally:
            process.terminate()
            process.wait(20)
            os.close(inner[1])
            os.close(outer[0])


def _page_of(pipe: Pipe) -> Page:
    target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
    page = Page(pipe, str(pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]))
    for domain in ("Page", "Runtime", "Log", "Network"):
        page.ask(f"{domain}.enable")
    page.resize(1400, 900)
    return page


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
