"""Pictures as a camera or a shop sends them."""

import io
from typing import Any

from PIL import Image


def picture(form: str = "JPEG", size: tuple[int, int] = (60, 40), **options: Any) -> bytes:
    """A brown one of this format and size."""
    out = io.BytesIO()
    Image.new("RGB", size, (150, 60, 30)).save(out, form, **options)
    return out.getvalue()
