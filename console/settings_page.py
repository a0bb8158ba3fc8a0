"""A person's own settings: time zone, theme, keys. Each holds on every page of theirs, at whatever shop."""

from functools import cache
from typing import Any
from zoneinfo import available_timezones

from flask import Blueprint, Response, g, url_for
from wtforms import BooleanField, RadioField, SelectField

from console import notices, words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.shell import zone_word
from ledger.database import scalar
from ledger.people import THEMES, set_settings

blueprint = Blueprint("settings", __name__, url_prefix="/<merchant_slug>/settings")

_THEME_TEXTS = {"system": "As my device", "light": "Light", "dark": "Dark"}


class SettingsForm(ConsoleForm):
    """How the pages are for this person."""

    zone = SelectField(
        "Time zone", description="Times are shown in it. Days, such as a due day or the day of a cap, stay the shop's.",
    )  # fmt: skip
    theme = RadioField("Theme", choices=words.choices({theme: _THEME_TEXTS[theme] for theme in THEMES}))
    shortcuts = BooleanField(
        "Keys",
        description="j, k, n, a, x and / do something on desks. No key approves. Off: only the browser's own keys.",
    )
    mail_work = BooleanField("Mail when a note mentions me, or a case becomes mine")


@blueprint.get("")
@permission("own_session")
def index() -> Response:
    with reading() as db:
        person = g.person
        mail_work = bool(scalar(db, "SELECT mail_work FROM staff WHERE staff_id = :s", s=current.staff_id))
        form = SettingsForm(
            None, zone=person.zone, theme=person.theme or "system", shortcuts=person.shortcuts, mail_work=mail_work
        )
        return _page(form)


@blueprint.post("")
@permission("own_session")
def save() -> Response:
    form = SettingsForm()
    form.zone.choices = _zones()
    if not form.validate():
        with reading():
            return _page(form, status=422)
    with writing() as db:
        set_settings(
            db, current.staff_id, zone=str(form.zone.data), theme=str(form.theme.data), shortcuts=bool(form.shortcuts.data),
            mail_work=bool(form.mail_work.data),
        )  # fmt: skip
    say("ok", "Your settings are kept.")
    return see_other("settings.index")


@cache
def _names() -> tuple[str, ...]:
    return tuple(
        sorted(
            name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix", "right"))
        )
    )


def _zones() -> list[Any]:
    own = {"": f"The shop's: {zone_word(current.zone)}", "UTC": "UTC"}
    return words.choices(own | {name: name for name in _names()})


def _page(form: SettingsForm, *, status: int = 200) -> Response:
    form.zone.choices = _zones()
    return page(
        "settings.html",
        status=status,
        form=form,
        mail=notices.on(),
        email=current.email,
        action_url=url_for("settings.save"),
    )
