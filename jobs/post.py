"""The only module that speaks to a mail server. Off unless MAIL_FROM is given."""

import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Self
from uuid import UUID

from jobs.mail_texts import Text
from ledger.database import forbid_open_transaction
from settings import Settings

TIMEOUT_SECONDS = 15
# The server said no to this mail, and says so again tomorrow (RFC 5321 section 4.2.1).
_FOR_GOOD = range(500, 600)


class NotSent(Exception):
    """The server did not take it. `for_good`: trying again is of no use."""

    def __init__(self, fault: str, *, for_good: bool) -> None:
        super().__init__(fault)
        self.fault, self.for_good = fault, for_good


@dataclass(frozen=True)
class Post:
    """Where mail is handed over. `security`: starttls, tls, or none, which is for a server on this machine."""

    sender: str
    origin: str
    host: str
    port: int = 587
    security: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, given: Settings) -> Self | None:
        """As configured; None when mail is off."""
        if not given.mail_from:
            return None
        password = given.smtp_password.get_secret_value() if given.smtp_password else ""
        return cls(
            given.mail_from, given.public_origin, given.smtp_host, given.smtp_port, given.smtp_security, given.smtp_user, password
        )  # fmt: skip

    def send(self, mail_id: UUID, to_address: str, text: Text) -> None:
        """Hands one mail over. Raises NotSent; NetworkInsideTransaction inside a transaction."""
        forbid_open_transaction()
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self.sender, to_address, text.subject
        message["Date"] = formatdate(usegmt=True)
        message["Message-ID"] = make_msgid(str(mail_id), domain=self.sender.rpartition("@")[2].rstrip(">"))
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text.body)
        try:
            with self._server() as server:
                if self.user:
                    server.login(self.user, self.password)
                server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code = next((code for code, _ in error.recipients.values()), 0)
            raise NotSent(f"recipient {code}", for_good=code in _FOR_GOOD) from error
        except smtplib.SMTPResponseException as error:
            # A login that is refused is our configuration, which somebody mends.
            login = isinstance(error, smtplib.SMTPAuthenticationError)
            raise NotSent(f"answer {error.smtp_code}", for_good=error.smtp_code in _FOR_GOOD and not login) from error
        except (smtplib.SMTPException, OSError) as error:
            raise NotSent(type(error).__name__, for_good=False) from error

    def _server(self) -> smtplib.SMTP:
        if self.security == "tls":
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context())
        server = smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_SECONDS)
        if self.security == "starttls":
            server.starttls(context=ssl.create_default_context())
        return server
