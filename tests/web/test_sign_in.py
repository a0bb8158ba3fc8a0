from collections.abc import Callable

from tests.web.pages import Browser
from tests.world import World


def test_priya_signs_in_and_sees_where_she_is_signed_in(browser: Callable[..., Browser], world: World) -> None:
    priya = browser()
    priya.sign_in(world.priya)
    page = priya.get(f"/{world.slug}/sessions")
    assert "Firefox on Linux this one" in page.text
    assert "203.0.113.0/24" in page.text
