"""Configuration of each process, from environment variables and files; nothing secret has a default (S79).

A secret may be given as `NAME` or as `NAME_FILE`, a path. `repr` shows no secret. Which process needs what is in
docs/operations.md.
"""

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self
from uuid import UUID

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Read once at start. `database_url` logs in as the role of the process: console for web, worker for jobs."""

    model_config = SettingsConfigDict(env_prefix="", extra="ignore", frozen=True, hide_input_in_errors=True)

    environment: Literal["production", "demo", "test"] = "production"
    database_url: SecretStr
    # Address the browser sees, exact: absolute URLs, host check and origin check come from it, never from a header.
    public_origin: str = "http://127.0.0.1:8000"
    # Signs the pre-session and device cookies of the web process.
    cookie_key: SecretStr | None = None
    # Web only: `key-id:base64`. Workers get the public half.
    seal_key: SecretStr | None = None
    seal_public_keys: tuple[str, ...] = ()
    # The same pair for what a policy approves by itself, of another key; without it nothing is (S38).
    automatic_seal_key: SecretStr | None = None
    automatic_seal_public: tuple[str, ...] = ()
    # Worker only, by credential name of the provider account: {"hollowbrook": "rk_live_…"}.
    provider_keys: dict[str, SecretStr] = Field(default_factory=dict)
    # Worker only: which database it works for, as `flask db deployment` prints it, and where its mark of that is kept.
    deployment_id: UUID | None = None
    generation: int | None = Field(default=None, ge=1)
    state_dir: Path = Path("var/state")
    # While this file exists a worker claims and sends nothing, whatever the database says (S88); a web process that has it too
    # approves nothing by a policy meanwhile.
    pause_file: Path | None = None
    provider_base_url: str = "https://api.stripe.com"
    provider_connect_seconds: float = 5
    provider_read_seconds: float = 30
    # Web only, by merchant slug: up to three while one is rolled.
    webhook_secrets: dict[str, tuple[SecretStr, ...]] = Field(default_factory=dict)
    # How long a refund can be called back after it was approved.
    cancel_window_seconds: int = Field(default=30, ge=0, le=3600)
    consistency_seconds: int = Field(default=60, ge=0)
    # Where figures are served to Prometheus, by workers and by the web's first process; 0 serves none.
    metrics_address: str = "127.0.0.1"
    metrics_port: int = Field(default=0, ge=0, le=65535)
    # Mail is off while MAIL_FROM is empty; web has to know that it is on, and only workers send.
    mail_from: str = Field(default="", max_length=200)
    smtp_host: str = ""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: SecretStr | None = None
    trusted_hops: int = Field(default=0, ge=0, le=5)
    web_pool_size: int = Field(default=8, ge=1, le=64)
    worker_pool_size: int = Field(default=20, ge=2, le=64)
    submitter_in_flight: int = Field(default=16, ge=1, le=64)

    @model_validator(mode="before")
    @classmethod
    def _from_files(cls, values: dict[str, object]) -> dict[str, object]:
        for name in (
            "DATABASE_URL",
            "COOKIE_KEY",
            "SEAL_KEY",
            "AUTOMATIC_SEAL_KEY",
            "PROVIDER_KEYS",
            "WEBHOOK_SECRETS",
            "SMTP_PASSWORD",
        ):
            path = os.environ.get(f"{name}_FILE")
            if path and name.lower() not in values:
                text = Path(path).read_text(encoding="utf-8").strip()
                values[name.lower()] = json.loads(text) if name in ("PROVIDER_KEYS", "WEBHOOK_SECRETS") else text
        return values

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if self.environment == "production":
            if not self.public_origin.startswith("https://"):
                raise ValueError("PUBLIC_ORIGIN must be https in production")
            if not self.provider_base_url.startswith("https://"):
                raise ValueError("PROVIDER_BASE_URL must be https in production")
            if self.smtp_security == "none" and self.smtp_host not in ("", "localhost", "127.0.0.1", "::1"):
                raise ValueError("SMTP_SECURITY is none for a server that is not on this machine: take starttls or tls")
        live = [name for name, key in self.provider_keys.items() if "_live_" in key.get_secret_value()]
        if live and self.environment != "production":
            raise ValueError("a live provider key outside production: use a test key")
        return self


@lru_cache
def settings() -> Settings:
    """The process's settings; a ValidationError names the variable and never its value."""
    return Settings()
