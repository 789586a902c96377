"""A headless Chromium to open pages in, driven over two pipes (Chrome DevTools Protocol): nothing but the
browser is needed, and no port is opened."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 60.0


def installed() -> str | None:
    """The browser's command, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one tab. `troubles`: errors on the console and exceptions since the last `open`."""

    def __init__(self, profile: Path) -> None:
        command = installed()
        assert command is not None
        reading, told = os.pipe()
        answers, writing = os.pipe()
        self.sending, self.answers, self.kept, self.number = told, answers, b"", 0

        def as_expected() -> None:
            """Chromium reads at 3 and writes at 4."""
            from_us, to_us = os.dup(reading), os.dup(writing)
            os.dup2(from_us, 3)
            os.dup2(to_us, 4)

        self.process = subprocess.Popen(
            [command, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=as_expected,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reading)
        os.close(writing)
        self.troubles: list[str] = []
        self.loaded = False
        self.session: str | None = None
        tab = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session = None
        self.ask("Browser.close")  # all its processes end before it does
        self.process.wait(PATIENCE_S)
        os.close(self.sending)
        os.close(self.answers)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The browser's answer to a command."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.sending, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, path: Path, width: int = 1280, dark: bool = False, height: int = 900) -> None:
        """A page of a file, loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.troubles, self.loaded = [], False
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not self.loaded:
            self._next()

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """One key, down and up."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def picture(self, path: Path, height: int | None = None) -> None:
        """A screenshot of the page as PNG, of all of it or its first `height` pixels."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        tall = size["height"] if height is None else min(height, size["height"])
        clip = {"x": 0, "y": 0, "width": size["width"], "height": tall, "scale": 1}
        told = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(told["data"]))

    def _next(self) -> dict[str, Any]:
        """The next message; what it says of the page is noted."""
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self.kept:
            ready, _, _ = select.select([self.answers], [], [], max(until - time.monotonic(), 0.0))
            assert ready, "the browser does not answer"
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has ended"
            self.kept += more
        line, self.kept = self.kept.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.troubles.append(params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.troubles.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.troubles.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.troubles.append(f"fetches {url}")
