"""Photos of returned goods, drawn by the seed itself: a bench, the thing, and the mark somebody found on it."""

import hashlib
import io
import random

from PIL import Image, ImageDraw, ImageFilter

SIZE = (800, 576)
CLOTHS = ((222, 205, 170), (92, 105, 134), (187, 120, 96), (134, 153, 129), (200, 196, 190), (120, 86, 116))


def picture(seed: str, *, flaw: bool) -> bytes:
    """A JPEG of 800 × 576 that depends on `seed` alone; `flaw` draws a stain."""
    random_ = random.Random(hashlib.sha256(seed.encode()).digest())
    image = Image.new("RGB", SIZE, (203, 208, 214))
    draw = ImageDraw.Draw(image)
    for y in range(SIZE[1]):
        shade = 214 - y * 40 // SIZE[1]
        draw.line([(0, y), (SIZE[0], y)], fill=(shade - 8, shade - 3, shade))
    cloth = random_.choice(CLOTHS)
    left, top = random_.randint(150, 210), random_.randint(70, 110)
    right, bottom = SIZE[0] - left, SIZE[1] - 50
    draw.rounded_rectangle((left + 10, top + 14, right + 10, bottom + 10), 36, fill=(150, 156, 163))
    draw.rounded_rectangle((left, top, right, bottom), 36, fill=cloth)
    darker = tuple(max(0, part - 26) for part in cloth)
    for _ in range(5):
        x = random_.randint(left + 40, right - 40)
        draw.line([(x, top + 12), (x + random_.randint(-40, 40), bottom - 12)], fill=darker, width=3)
    draw.rounded_rectangle((right - 120, top + 26, right - 40, top + 66), 6, fill=(245, 243, 236), outline=darker)
    if flaw:
        x, y = random_.randint(left + 120, right - 160), random_.randint(top + 140, bottom - 120)
        for radius, colour in ((66, (168, 132, 82)), (44, (140, 102, 58)), (22, (116, 82, 46))):
            draw.ellipse((x - radius, y - radius * 2 // 3, x + radius, y + radius * 2 // 3), fill=colour)
    image = image.filter(ImageFilter.GaussianBlur(1.2))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=82)
    return out.getvalue()
