"""Pictures of pages: small enough to be kept, and compared."""

from __future__ import annotations

from io import BytesIO

from PIL import Image, ImageChops

COMMON, OTHERS = 128, 127
FAINT = 24
"""Two colours are the same where red, green and blue differ by at most this, of 255: edges of letters may be drawn otherwise."""


def small(png: bytes) -> bytes:
    """The same picture in 255 colours, a third of the size: those that it has most of, exactly, and others near to the rest."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    most = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)[:COMMON]
    others = picture.quantize(OTHERS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in most for part in colour] + others[: 3 * OTHERS])
    kept = BytesIO()
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
    return kept.getvalue()


def differing(one: bytes, other: bytes) -> float:
    """The share of pixels in which two pictures differ; 1 where they are not of one size."""
    first, second = (Image.open(BytesIO(png)).convert("RGB") for png in (one, other))
    if first.size != second.size:
        return 1.0
    parts = ImageChops.difference(first, second).split()
    most = ImageChops.lighter(ImageChops.lighter(parts[0], parts[1]), parts[2])
    return sum(most.histogram()[FAINT + 1 :]) / (first.width * first.height)
