"""The page at /_sandbox/ for people: what is held, what was called, and forms for what shall go wrong. No scripts."""

from sandbox.provider import Provider
from sandbox.webhooks import Webhooks
from sandbox.wire import Reply


def show(provider: Provider, webhooks: Webhooks) -> Reply:
    return Reply(200, b"<!doctype html><title>Sandbox</title>", {"Content-Type": "text/html; charset=utf-8"})


def refusal(status: int, message: str) -> Reply:
    return Reply(status, message.encode(), {"Content-Type": "text/plain; charset=utf-8"})
