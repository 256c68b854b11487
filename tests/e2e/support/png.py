"""Makes a screenshot small: at most 256 colours, each pixel an index into them."""

import collections
import struct
import zlib

HEADER = b"\x89PNG\r\n\x1a\n"


def chunks(png):
    at = len(HEADER)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def paeth(left, above, corner):
    guess = left + above - corner
    distances = [(abs(guess - one), at) for at, one in enumerate((left, above, corner))]
    return (left, above, corner)[min(distances)[1]]


def rows(data, width, height, size):
    """Lines of pixels of `size` bytes without the filters of PNG."""
    line = width * size
    above = bytearray(line)
    for y in range(height):
        kind, row = data[y * (line + 1)], bytearray(data[y * (line + 1) + 1 : (y + 1) * (line + 1)])
        for x in range(line if kind else 0):
            left = row[x - size] if x >= size else 0
            corner = above[x - size] if x >= size else 0
            add = (0, left, above[x], (left + above[x]) // 2, None)[kind]
            row[x] = (row[x] + (paeth(left, above[x], corner) if add is None else add)) & 255
        yield row
        above = row


def nearest(palette, colour):
    return min(range(len(palette)),
               key=lambda at: sum((a - b) ** 2 for a, b in zip(palette[at], colour)))  # fmt: skip


def packed(png):
    """The same picture; colours beyond the 256 most frequent become the nearest of those."""
    parts = list(chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", parts[0][1][:10])
    assert depth == 8 and kind in (2, 6), "what Chromium writes"
    size = 3 if kind == 2 else 4
    data = zlib.decompress(b"".join(part for name, part in parts if name == b"IDAT"))
    lines = [[tuple(row[x : x + 3]) for x in range(0, len(row), size)]
             for row in rows(data, width, height, size)]  # fmt: skip
    counts = collections.Counter(pixel for line in lines for pixel in line)
    palette = [colour for colour, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
    palette = palette[:256]
    index = {colour: at for at, colour in enumerate(palette)}
    for colour in counts:
        index.setdefault(colour, nearest(palette, colour))
    plain = b"".join(b"\0" + bytes(index[pixel] for pixel in line) for line in lines)
    return HEADER + b"".join((
        chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        chunk(b"PLTE", b"".join(map(bytes, palette))),
        chunk(b"IDAT", zlib.compress(plain, 9)),
        chunk(b"IEND", b""),
    ))  # fmt: skip
