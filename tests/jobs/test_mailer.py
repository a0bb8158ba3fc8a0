"""Mail leaves by a job, once, is tried again while its server is away, and says nothing of a customer or an amount (S7, S37)."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest

from jobs import mailer
from jobs.mail_texts import _TEXTS, Text
from jobs.post import NotSent, Post
from jobs.worker import Worker
from ledger.database import transaction
from ledger.errors import NetworkInsideTransaction
from ledger.ids import uuid7
from ledger.invitations import answer_invitation, ask_invitation, call_back, come_in
from ledger.mails import MOST_ATTEMPTS, claim_mail, queue_mail, tell
from settings import Settings
from tests.jobs.mail_server import MailServer, mail_server
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World

ORIGIN = "https://console.example"


@pytest.fixture
def office() -> Iterator[MailServer]:
    with mail_server() as made:
        yield made


@pytest.fixture
def sender(worker: Worker, office: MailServer) -> Worker:
    """A worker that sends mail over the test's own server."""
    worker.post = Post("Onceback <desk@shop.example>", ORIGIN, "127.0.0.1", office.port, "none")
    return worker


def told(stack: Stack, world: World, kind: str = "new_browser", **facts: Any) -> bool:
    with transaction(stack.console) as db:
        return tell(db, world.priya.staff_id, kind, {"device": "Firefox on Linux", "path": "/"} | facts)


def due_now(stack: Stack) -> None:
    as_administrator(stack, "UPDATE mails SET due_at = now()")


def states(stack: Stack) -> list[dict[str, Any]]:
    return as_administrator(
        stack, "SELECT attempts, sent_at IS NOT NULL AS sent, given_up_at IS NOT NULL AS over, fault FROM mails"
    )


def test_a_mail_that_waits_is_sent_once(stack: Stack, world: World, sender: Worker, office: MailServer) -> None:
    assert told(stack, world)
    assert mailer.run_once(sender) == {"mails_sent": 1}
    due_now(stack)
    assert mailer.run_once(sender) == {}
    (mail,) = office.mails
    assert mail["To"] == world.priya.email
    assert mail["Subject"] == "New sign-in to Onceback"
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_content()
    assert "Hello Priya Raman," in text
    assert "Firefox on Linux" in text
    assert f"{ORIGIN}/" in text


def test_while_the_server_is_away_it_waits_longer_each_time_and_is_given_up_in_the_end(
    stack: Stack, world: World, sender: Worker, office: MailServer
) -> None:
    office.hangs_up = True
    told(stack, world)
    waits = []
    for _ in range(MOST_ATTEMPTS - 1):
        assert mailer.run_once(sender) == {"mails_waiting": 1}
        assert mailer.run_once(sender) == {}
        waits.append(
            as_administrator(stack, "SELECT extract(epoch FROM due_at - now())::int / 60 AS m FROM mails")[0]["m"]
        )
        due_now(stack)
    assert waits[:4] == [0, 1, 3, 7] or waits[:4] == [1, 2, 4, 8]
    assert max(waits) <= 60
    assert mailer.run_once(sender) == {"mails_given_up": 1}
    due_now(stack)
    office.hangs_up = False
    assert mailer.run_once(sender) == {}
    assert office.mails == []


def test_a_server_that_comes_back_gets_it(stack: Stack, world: World, sender: Worker, office: MailServer) -> None:
    office.refuse = "451 later"
    told(stack, world)
    assert mailer.run_once(sender) == {"mails_waiting": 1}
    assert states(stack)[0]["fault"] == "recipient 451"
    office.refuse = ""
    due_now(stack)
    assert mailer.run_once(sender) == {"mails_sent": 1}


def test_an_address_the_server_does_not_know_is_not_tried_again(
    stack: Stack, world: World, sender: Worker, office: MailServer
) -> None:
    office.refuse = "550 nobody here"
    told(stack, world)
    assert mailer.run_once(sender) == {"mails_given_up": 1}
    assert states(stack) == [{"attempts": 1, "sent": False, "over": True, "fault": "recipient 550"}]


def test_two_workers_at_once_send_each_mail_once(
    stack: Stack, world: World, sender: Worker, office: MailServer
) -> None:
    for number in range(12):
        told(stack, world, device=f"browser {number}")
    barrier = threading.Barrier(2)

    def runs(_number: int) -> int:
        barrier.wait()
        return mailer.run_once(sender)["mails_sent"]

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(runs, range(2))) == 12
    assert len({mail.get_content() for mail in office.mails}) == len(office.mails) == 12


def test_a_mail_whose_sender_died_is_due_again(stack: Stack, world: World, sender: Worker, office: MailServer) -> None:
    told(stack, world)
    with transaction(sender.engine) as db:
        assert claim_mail(db) is not None
    assert mailer.run_once(sender) == {}
    due_now(stack)
    assert mailer.run_once(sender) == {"mails_sent": 1}


def test_while_mail_is_off_nothing_is_claimed(stack: Stack, world: World, worker: Worker) -> None:
    told(stack, world)
    assert worker.post is None
    assert mailer.run_once(worker) == {}
    assert states(stack)[0]["attempts"] == 0


def test_nothing_is_sent_inside_a_transaction(stack: Stack, sender: Worker) -> None:
    assert sender.post is not None
    with pytest.raises(NetworkInsideTransaction), transaction(stack.console):
        sender.post.send(uuid7(), "noor@harbour.example", Text("subject", "text"))


def test_mail_about_work_is_only_for_whoever_asked_for_it(stack: Stack, world: World) -> None:
    facts = {"by": "Tobias Renk", "case": "C-20001", "shop": "Harbour", "path": "/harbour"}
    assert not told(stack, world, "mentioned", **facts)
    as_administrator(stack, "UPDATE staff SET mail_work = true WHERE staff_id = %s", world.priya.staff_id)
    assert told(stack, world, "mentioned", **facts)
    as_administrator(stack, "UPDATE staff SET disabled_at = now() WHERE staff_id = %s", world.priya.staff_id)
    assert not told(stack, world, "mentioned", **facts)
    assert not told(stack, world)


def test_an_invitation_is_mailed_with_a_link_that_was_never_in_the_queue(
    stack: Stack, world: World, sender: Worker, office: MailServer
) -> None:
    one, m = uuid7(), world.merchant_id
    as_administrator(stack, "UPDATE memberships SET role = 'admin' WHERE staff_id = %s", world.jonas.staff_id)
    with transaction(stack.console, m) as db:
        ask_invitation(db, m, one, world.ada.staff_id, email="noor@harbour.example", name="Noor", role="desk")
        answer_invitation(db, m, one, world.jonas.staff_id, granted=True)
        facts = {"name": "Noor", "shop": "Harbour", "role": "Returns desk", "path": "/invitations/harbour",
                 "merchant_id": str(m), "invitation_id": str(one)}  # fmt: skip
        queue_mail(db, "noor@harbour.example", "invited", facts)
    queued = as_administrator(stack, "SELECT row_to_json(q)::text AS r FROM mails q")[0]["r"]
    assert mailer.run_once(sender) == {"mails_sent": 1}
    text = office.mails[0].get_content()
    link = text.partition("/invitations/harbour/")[2].split()[0]
    assert len(link) == 43
    assert link not in queued
    with transaction(stack.console, m) as db:
        come_in(db, m, link, "a hash")


def test_an_invitation_that_was_called_back_is_not_mailed(
    stack: Stack, world: World, sender: Worker, office: MailServer
) -> None:
    one, m = uuid7(), world.merchant_id
    with transaction(stack.console, m) as db:
        ask_invitation(db, m, one, world.ada.staff_id, email="noor@harbour.example", name="Noor", role="desk")
        call_back(db, m, one, world.ada.staff_id)
        queue_mail(db, "noor@harbour.example", "invited", {
            "name": "Noor", "path": "/invitations/harbour", "merchant_id": str(m), "invitation_id": str(one)})  # fmt: skip
    assert mailer.run_once(sender) == {"mails_given_up": 1}
    assert office.mails == []


def test_a_name_with_a_line_break_adds_no_header_and_no_line(
    stack: Stack, world: World, sender: Worker, office: MailServer
) -> None:
    as_administrator(stack, "UPDATE staff SET mail_work = true")
    told(stack, world, "mentioned", by="Eve\r\nBcc: all@shop.example\r\n\r\nhello", case="C-1", shop="H", path="/h")
    mailer.run_once(sender)
    (mail,) = office.mails
    assert mail["Bcc"] is None
    assert "\nBcc" not in mail.get_content()


def test_every_kind_that_the_database_takes_has_a_text_and_no_other(stack: Stack) -> None:
    (row,) = as_administrator(
        stack, "SELECT pg_get_constraintdef(oid) AS d FROM pg_constraint WHERE conrelid = 'mails'::regclass"
        " AND pg_get_constraintdef(oid) LIKE '%%new_browser%%'",
    )  # fmt: skip
    assert set(row["d"].split("'")[1::2]) == set(_TEXTS)


def test_a_password_of_the_server_is_not_shown_and_mail_in_the_open_leaves_this_machine_in_no_production() -> None:
    usual: dict[str, Any] = {
        "environment": "production", "database_url": "postgresql://x", "public_origin": ORIGIN,
        "mail_from": "desk@shop.example", "smtp_host": "mail.shop.example", "smtp_password": "hush-hush",
    }  # fmt: skip
    made = Post.of(Settings(**usual))
    assert made is not None
    assert "hush" not in repr(made)
    with pytest.raises(ValueError, match="SMTP_SECURITY"):
        Settings(**usual, smtp_security="none")
    assert Post.of(Settings(**usual | {"mail_from": ""})) is None
    assert get_args(Settings.model_fields["smtp_security"].annotation) == ("starttls", "tls", "none")


def test_a_server_without_encryption_gets_nothing_when_starttls_is_asked_for(office: MailServer) -> None:
    asks = Post("desk@shop.example", ORIGIN, "127.0.0.1", office.port, "starttls", "desk", "hush-hush")
    with pytest.raises(NotSent):
        asks.send(uuid7(), "noor@harbour.example", Text("s", "b"))
    assert office.mails == []
