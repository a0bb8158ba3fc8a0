"""Reads one picture from stdin and writes it anew to stdout, in a process of its own: `console.pictures` runs it as a script.

Whatever the file holds meets a process with an empty environment and limits on memory, time and files (S58). What comes out is
pixels of ours: turned upright, at most LONGEST_SIDE, a JPEG without metadata. Anything it cannot read ends it.
"""

import io
import resource
import sys
from typing import Final

FORMATS: Final = ("JPEG", "PNG", "WEBP")
MOST_PIXELS: Final = 40_000_000
# A stain on a sleeve shows at this size, and 20 of them are what a page can load.
LONGEST_SIDE: Final = 2_560
QUALITY: Final = 88
TOO_LARGE: Final = 3
SEVERAL_FRAMES: Final = 4
# 40 million pixels three times over, with what Python takes; seconds of one core.
LIMITS: Final = (
    (resource.RLIMIT_AS, 1 << 30),
    (resource.RLIMIT_CPU, 8),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
)


def main() -> int:
    """0 with the picture on stdout, or why there is none."""
    for what, most in LIMITS:
        resource.setrlimit(what, (most, most))
    from PIL import Image, ImageOps  # noqa: PLC0415 - under the limits

    Image.MAX_IMAGE_PIXELS = None  # the check below is the stricter one
    with Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=FORMATS) as found:
        if found.width * found.height > MOST_PIXELS:
            return TOO_LARGE
        # A phone's second picture behind the first (MPO) is no animation, and is dropped like all that is not pixels.
        if found.format != "MPO" and getattr(found, "n_frames", 1) != 1:
            return SEVERAL_FRAMES
        upright = ImageOps.exif_transpose(found)
    upright.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    clean = Image.new("RGB", upright.size, "white")
    clean.paste(upright.convert("RGBA"), mask=upright.convert("RGBA").getchannel("A"))
    out = io.BytesIO()
    clean.save(out, "JPEG", quality=QUALITY)
    sys.stdout.buffer.write(out.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
