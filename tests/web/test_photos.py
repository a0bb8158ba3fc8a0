"""Photos come in through one form: decoded in a process of its own, written anew, kept with the hash of what was sent (S58)."""

import hashlib
import io
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from PIL import Image, PngImagePlugin

from console import pictures
from ledger import evidence
from ledger.errors import BadInput
from tests import lives
from tests.pictures import picture
from tests.web.desk import Desk, token_of
from tests.web.pages import Browser, Form


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


def form_of(desk: Desk, case_id: UUID) -> tuple[Browser, Form]:
    tobias = desk.at(desk.world.tobias)
    return tobias, tobias.get(desk.url(f"/goods-in/{case_id}/photos")).form("/photos")


def send(browser: Browser, form: Form, content: bytes, name: str = "a.jpg", **values: str) -> Any:
    data: dict[str, Any] = {**form.values, **values, "photo": (io.BytesIO(content), name)}
    return browser.ask("POST", form.action, data=data, content_type="multipart/form-data")


def stored(desk: Desk) -> list[dict[str, Any]]:
    return desk.rows("SELECT * FROM photos WHERE merchant_id = :m ORDER BY at")


def test_a_photo_is_stored_without_its_place_and_shown_on_the_case(desk: Desk) -> None:
    case_id = lives.open_case(desk.stack, desk.world, (("TEE", 2),)).case_id
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    exif[0x8825] = {1: "N", 2: (51.0, 30.0, 26.0), 3: "W", 4: (0.0, 7.0, 39.0)}
    sent = picture(exif=exif, comment=b"bought by Omar") + b"<script>alert(1)</script>PK\x03\x04"
    tobias, form = form_of(desk, case_id)
    for _ in range(2):
        assert send(tobias, form, sent, "../../omar.php", of="1_0", caption="the collar").status_code == 303

    (kept,) = stored(desk)
    content = bytes(kept["content"])
    with Image.open(io.BytesIO(content)) as ours:
        assert (ours.format, ours.size, dict(ours.getexif())) == ("JPEG", (40, 60), {})
        assert not {"comment", "icc_profile", "exif"} & set(ours.info)
    for foreign in (b"Omar", b"script", b"PK\x03\x04", b"php"):
        assert foreign not in content
    assert bytes(kept["sha256"]) == hashlib.sha256(content).digest()
    assert bytes(kept["original_sha256"]) == hashlib.sha256(sent).digest()
    assert (kept["unit"], kept["caption"], kept["content_type"]) == (0, "the collar", "image/jpeg")
    page = tobias.get(desk.case(case_id))
    assert "the collar" in page.text
    assert "1 photo" in page.text
    shown = tobias.ask("GET", desk.url(f"/photos/{kept['photo_id']}"))
    assert (shown.status_code, shown.get_data()) == (200, content)


@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_png_and_webp_are_taken_too_and_come_out_as_a_jpeg(form: str) -> None:
    with Image.open(io.BytesIO(pictures.encoded(picture(form)))) as ours:
        assert (ours.format, ours.size) == ("JPEG", (60, 40))


def bomb() -> bytes:
    """A PNG of a few bytes that says it is 100,000 by 100,000."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


def moving(form: str) -> bytes:
    frames = [Image.new("RGB", (20, 20), (shade, 0, 0)) for shade in (0, 120, 250)]
    out = io.BytesIO()
    frames[0].save(out, form, save_all=True, append_images=frames[1:], duration=100)
    return out.getvalue()


def loud() -> bytes:
    """A text chunk that grows to 64 MiB when it is read."""
    told = PngImagePlugin.PngInfo()
    told.add_text("note", "a" * (64 << 20), zip=True)
    return picture("PNG", pnginfo=told)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html><script>alert(1)</script></html>", "cannot be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "cannot be read"),
        (b"%PDF-1.7", "cannot be read"),
        (picture("GIF"), "cannot be read"),
        (picture("TIFF"), "cannot be read"),
        (picture()[:200], "cannot be read"),
        (b"", "cannot be read"),
        (bomb(), "more than 40 million pixels"),
        (loud(), "cannot be read"),
        (moving("WEBP"), "this picture moves"),
        (moving("PNG"), "this picture moves"),
        (picture() + b"\0" * pictures.MOST_BYTES, "at most 10 mib"),
    ],
    ids=["html", "svg", "pdf", "gif", "tiff", "cut", "empty", "bomb", "loud", "webp moves", "png moves", "too long"],
)  # fmt: skip
def test_what_is_no_single_picture_is_refused_by_its_field_and_nothing_is_stored(
    desk: Desk, content: bytes, said: str
) -> None:
    case_id = lives.open_case(desk.stack, desk.world).case_id
    tobias, form = form_of(desk, case_id)
    answer = send(tobias, form, content)
    assert answer.status_code == 422
    assert said in answer.get_data(as_text=True).lower()
    assert stored(desk) == []


def test_the_child_has_no_secret_and_one_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    run = subprocess.run

    def listen(*arguments: Any, **options: Any) -> Any:
        seen.update(options)
        return run(*arguments, **options)

    monkeypatch.setattr(subprocess, "run", listen)
    pictures.encoded(picture())
    assert (seen["env"], seen["cwd"], seen.get("close_fds", True)) == ({}, "/", True)
    monkeypatch.setattr(pictures, "_SECONDS", 0)
    with pytest.raises(BadInput, match="cannot be read"):
        pictures.encoded(picture())


def test_a_picture_that_needs_more_memory_than_the_child_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Path(pictures.__file__).with_name("photo_child.py").read_text(encoding="utf-8")
    small = tmp_path / "photo_child.py"
    small.write_text(child.replace("1 << 30", "96 << 20"), encoding="utf-8")
    sent = picture("PNG", (6_000, 6_000))
    assert pictures.encoded(sent)
    monkeypatch.setattr(pictures, "_CHILD", small)
    with pytest.raises(BadInput, match="cannot be read"):
        pictures.encoded(sent)


def test_a_case_takes_so_many_photos_and_a_rejected_one_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert evidence.MOST_PHOTOS == 20
    monkeypatch.setattr(evidence, "MOST_PHOTOS", 2)
    case_id = lives.open_case(desk.stack, desk.world).case_id
    tobias, form = form_of(desk, case_id)
    sent = [send(tobias, form, picture(), operation=f"{number:032x}") for number in range(3)]
    assert [answer.status_code for answer in sent] == [303, 303, 422]
    assert "A case takes 2 photos" in sent[2].get_data(as_text=True)

    tobias.submit(tobias.get(f"{desk.case(case_id)}/rejection").form("/rejection"), reason="other")
    assert send(tobias, form, picture(), operation="e" * 32).status_code == 409
    assert len(stored(desk)) == 2


def test_a_photo_calls_back_what_waits_for_approval(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    tobias, form = form_of(desk, intent["case_id"])
    sheet = desk.confirm(desk.world.priya, intent["intent_id"])
    send(tobias, form, picture(), of="1")
    assert desk.at(desk.world.priya).send(sheet).status_code == 409
    assert desk.count("approvals") == 0


def test_only_who_may_add_photos_may_send_as_much_as_one(desk: Desk) -> None:
    case_id = lives.open_case(desk.stack, desk.world).case_id
    tobias, form = form_of(desk, case_id)
    rita = desk.at(desk.world.rita)
    own = {"csrf_token": token_of(rita.shown)}
    assert send(rita, form, picture(), **own).status_code == 403
    assert send(rita, form, b"0" * 200_000, **own).status_code == 413
    assert send(tobias, form, b"0" * 200_000).status_code == 422
    assert send(tobias, form, b"0" * (pictures.MOST_BYTES + (1 << 20))).status_code == 413
    assert stored(desk) == []
