"""The web process as tests start it, called at the address it is known by."""

from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app import create_app
from ledger.seals import new_key
from settings import Settings
from tests.compiled import keep_compiled
from tests.stack import Stack

ORIGIN = "http://127.0.0.1:8000"
COOKIE_KEY = "kX2-9fQ_7mRt4Vb8Lw1Zs6Yp3Nc5Hd0Jg"


class Client(FlaskClient):
    """Sends the host that the process expects."""

    def open(self, *asked: Any, **more: Any) -> TestResponse:
        more.setdefault("base_url", self.application.config["ORIGIN_OF_TEST"])
        return super().open(*asked, **more)


def web_app(stack: Stack, **changes: Any) -> Flask:
    """The application on a test's own database."""
    usual = {"environment": "test", "database_url": stack.console_url, "public_origin": ORIGIN, "web_pool_size": 4,
             "cookie_key": COOKIE_KEY, "seal_key": new_key("seal-1")}  # fmt: skip
    app = keep_compiled(create_app(Settings(**{**usual, **changes})))
    app.test_client_class = Client
    app.config["ORIGIN_OF_TEST"] = changes.get("public_origin", ORIGIN)
    return app
