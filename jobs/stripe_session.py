"""The HTTP session under the provider's SDK: one host, at judged addresses, no redirects, no surroundings, and answers of a
bounded size."""

import time
from typing import Any, Final

import requests
import urllib3

from jobs.stripe_addresses import JudgedAdapter
from ledger import tracing

# A full list page of refunds is about 200 KB; ten times that is no answer of the provider.
ANSWER_BYTES: Final = 2 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024


class ProviderSession(requests.Session):
    """A session of one thread. Environment proxies and .netrc are ignored; a redirect is an answer, never followed.

    `whole_answer_seconds` bounds the body as a whole, for a read time-out only bounds each packet.
    """

    def __init__(self, whole_answer_seconds: float) -> None:
        super().__init__()
        self.trust_env = False
        self.max_redirects = 0
        for scheme in ("https://", "http://"):
            self.mount(scheme, JudgedAdapter())
        self._whole_answer_seconds = whole_answer_seconds

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Never: a redirect would carry the request and its key to another host."""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Sends and reads the body up to the limits. Raises RequestException; what the provider did is then unknown."""
        ends = time.monotonic() + self._whole_answer_seconds
        if tracing.current():
            # A header, so the body the provider compares under a key stays the same at every attempt.
            request.headers["traceparent"] = tracing.below(tracing.current())
        answer = super().send(request, **{**kwargs, "stream": True})
        try:
            # What Response.content keeps; consumed, so that close() gives the connection back instead of ending it.
            answer._content = _read(answer, ends)  # noqa: SLF001
            answer._content_consumed = True  # type: ignore[attr-defined]  # noqa: SLF001
        finally:
            answer.close()
        return answer


def _read(answer: requests.Response, ends: float) -> bytes:
    body = bytearray()
    try:
        while chunk := answer.raw.read1(_CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise requests.exceptions.ContentDecodingError("the answer is larger than any the provider gives")
            if time.monotonic() > ends:
                raise requests.exceptions.ReadTimeout("the answer took too long as a whole")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        if isinstance(error, requests.exceptions.RequestException):
            raise
        raise requests.exceptions.ChunkedEncodingError(str(error)) from error
    return bytes(body)
