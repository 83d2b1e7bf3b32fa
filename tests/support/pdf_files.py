"""PDF files as tests need them: a few pages of text, and what hostile hands make of the format."""

import io
import zlib
from collections.abc import Sequence

import pypdf


def pdf_of(*pages: str) -> bytes:
    """Return a PDF whose pages show these texts, one line of each below the other."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        shown = " T* ".join(f"({_escaped(line)}) Tj" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 40 700 Td {shown} ET" if text else ""
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {len(objects)} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    return file_of([text.encode("latin-1") for text in objects])


def file_of(objects: Sequence[bytes]) -> bytes:
    """Return a PDF of these objects, the first of which is the catalogue."""
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return data + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (size, table, size, len(data))
    )


def encrypted_pdf(*pages: str, password: str) -> bytes:
    """Return a PDF that only its password opens; without one anybody may read it."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf_of(*pages)))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def circular_pdf() -> bytes:
    """Return a PDF whose tree of pages holds itself."""
    return file_of([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])


def deep_pdf(depth: int = 100_000) -> bytes:
    """Return a PDF with lists in lists."""
    return file_of(
        [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids " + b"[" * depth + b"]" * depth + b">>"]
    )


def swelling_pdf(num_bytes: int = 3_000_000_000) -> bytes:
    """Return a PDF with a page of some kilobytes that unfolds to gigabytes."""
    packer = zlib.compressobj(9)
    blank, parts = b" " * (1 << 20), []
    for _ in range(num_bytes >> 20):
        parts.append(packer.compress(blank))
    stream = b"".join([*parts, packer.flush()])
    stream = zlib.compress(stream, 9)
    return file_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << >> >>",
            b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        ]
    )


def endless_pdf() -> bytes:
    """Return a PDF whose tables of objects lead in a circle."""
    data = pdf_of("never reached")
    place = data.rindex(b"xref\n0")
    return data.replace(b"/Root 1 0 R >>", b"/Root 1 0 R /Prev %d >>" % place)


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
