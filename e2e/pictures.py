"""Pictures of the README, taken in the run of the browser tests: docs/screenshot.png (queue) and docs/case.png.

Taken when one is missing, or when ONCEBACK_SCREENSHOTS is 1; else the tree stays as it is.
"""

import io
import os

from PIL import Image
from playwright.sync_api import Browser

from demo.people import PASSWORD
from e2e.pages import SignInPage
from e2e.shop import ROOT, Shop

QUEUE, CASE = ROOT / "docs" / "screenshot.png", ROOT / "docs" / "case.png"
# Ilse's two overshirts: both units arrived, one of them worn.
SHOWN_ORDER = "A-20588"


def take_pictures(chromium: Browser, shop: Shop) -> None:
    """As Priya sees the seeded shop at 1366 × 768, before any test changed it."""
    if QUEUE.exists() and CASE.exists() and os.environ.get("ONCEBACK_SCREENSHOTS") != "1":
        return
    context = chromium.new_context(viewport={"width": 1366, "height": 768}, color_scheme="light")
    page = context.new_page()
    SignInPage(page, shop).open().sign_in("priya", PASSWORD)
    page.goto(shop.url("/queue/"))
    pictures = {QUEUE: page.screenshot()}
    (case,) = shop.rows(
        "SELECT c.case_id FROM cases c JOIN orders o USING (merchant_id, order_id) WHERE o.external_ref = %s",
        SHOWN_ORDER,
    )
    page.goto(shop.url(f"/cases/{case['case_id']}"))
    page.wait_for_load_state("networkidle")
    pictures[CASE] = page.screenshot()
    context.close()
    for path, content in pictures.items():
        image = Image.open(io.BytesIO(content)).convert("RGB").quantize(192, dither=Image.Dither.NONE)
        image.save(path, optimize=True)
