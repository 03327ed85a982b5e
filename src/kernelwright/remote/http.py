"""One service as a client sees it: requests that are tried again, refusals as exceptions."""

import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from kernelwright.core.errors import MachineError, UserError, missing
from kernelwright.core.frozen import Frozen
from kernelwright.core.hosts import is_loopback
from kernelwright.core.version import __version__
from kernelwright.remote.records import Health, Refusal
from kernelwright.remote.retry import SHORTEST_DELAY_S, Delays, Patience
from kernelwright.settings import TOKEN_VARIABLE

try:
    import httpx
except ImportError as error:
    raise missing(error, "serve") from error

F = TypeVar("F", bound=Frozen)

ANSWER_MARGIN_S = 60.0
"""Beyond a long poll, before a silent connection counts as lost."""
HEALTH_S = 2.0
"""Patience with a service that has never answered: it is rather not there."""


class Http:
    """Requests to one service; close it after use."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        patience: Patience,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        host = require_url(url)
        self._url, self._patience, self._sleep = url.rstrip("/"), patience, sleep
        self._client = httpx.Client(
            headers={"User-Agent": f"kernelwright/{__version__}"}
            | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(ANSWER_MARGIN_S, read=patience.poll_s + ANSWER_MARGIN_S, connect=10.0),
            trust_env=not is_loopback(host),  # no proxy stands between a machine and itself
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def require_service(self) -> Health:
        """Return what the service says of itself; raises MachineError when none of ours answers there."""
        answer = self.send("GET", "/health", lost_s=HEALTH_S)
        if answer.status_code != 200:
            raise self.unexpected(answer)
        return self.parse(answer, Health)

    def send(
        self, method: str, path: str, record: Frozen | None = None, *, lost_s: float | None = None
    ) -> httpx.Response:
        """Send a request until it is answered; any status but 401, 403, 413, 429 and 5xx is the caller's.

        Safe for every request of the service: the same one again has no further effect.

        Raises:
            UserError: wrong or missing token, or the body is too large.
            MachineError: not reached, or no room, for as long as the patience lasts.
        """
        body = record.model_dump_json().encode() if record is not None else None
        lost = Delays(self._patience.lost_s if lost_s is None else lost_s, self._sleep)
        busy = Delays(self._patience.busy_s, self._sleep)
        while True:
            answer, problem = self._try(method, path, body)
            if answer is None:
                if lost.pause():
                    continue
                raise MachineError(f"no answer from {self._url}: {problem}; is `kernelwright serve` running?")
            after = answer.headers.get("retry-after")
            if answer.status_code == 429 and busy.pause(after):
                continue
            if answer.status_code >= 500 and lost.pause(after):
                continue
            self._require_acceptance(answer)
            return answer

    def rest(self) -> None:
        """Pause between two polls: whatever stands between may answer at once instead of waiting."""
        self._sleep(SHORTEST_DELAY_S)

    def parse(self, answer: httpx.Response, kind: type[F]) -> F:
        """Return the body as a record; raises MachineError when it is something else."""
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise MachineError(
                f"{self._url} answers with something that is no {kind.__name__} of version {__version__}; "
                "is it `kernelwright serve`, and the same version?"
            ) from error

    def unexpected(self, answer: httpx.Response) -> MachineError:
        """Return the exception for a status that nothing can be done about."""
        return MachineError(f"{self._url} refuses: {refusal(answer)} (HTTP {answer.status_code})")

    def _try(self, method: str, path: str, body: bytes | None) -> tuple[httpx.Response | None, str]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self._client.request(method, self._url + path, content=body, headers=headers), ""
        except httpx.TransportError as error:
            return None, str(error) or type(error).__name__
        except httpx.HTTPError as error:
            raise MachineError(f"{self._url} answers with nonsense: {error}") from error

    def _require_acceptance(self, answer: httpx.Response) -> None:
        status, line = answer.status_code, refusal(answer)
        if status == 401:
            raise UserError(f"{self._url} wants a token; set {TOKEN_VARIABLE} to the one it was started with")
        if status == 403:
            raise UserError(f"{self._url} refuses the token ({line}); check {TOKEN_VARIABLE}")
        if status == 413:
            raise UserError(f"{self._url} refuses: {line}; raise the service's --max-bytes or send less")
        if status == 429:
            raise MachineError(f"{self._url} has had no room for too long: {line}")
        if status >= 500:
            raise self.unexpected(answer)


def refusal(answer: httpx.Response) -> str:
    """Return the line that a refusal carries, or what there is instead of it."""
    try:
        return Refusal.model_validate_json(answer.content).error
    except ValidationError:
        return answer.reason_phrase or "no reason given"


def require_url(url: str) -> str:
    """Return the host; raises UserError when this is no address of a service."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        is_usable = parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        host, is_usable = None, False
    if not host or not is_usable:
        raise UserError(f"{url!r} is no address of a service; use one like http://127.0.0.1:8787")
    return host
