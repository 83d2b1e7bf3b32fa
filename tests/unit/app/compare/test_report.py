"""The report and its other forms: whole, self-contained, and safe with hostile text."""

import csv
import errno
import html.parser
import io
import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from app.compare.exports import to_csv, to_json, to_markdown
from app.compare.report import check_report_path, to_html, write_report
from app.compare.results import Comparison, Mode, comparison_from_json
from app.errors import ReportNotSaved, UsageError
from tests.support.comparisons import LADDER, sample_column, sample_comparison

HOSTILE = "</script></style><img src=x onerror=alert(1)><script>alert(2)</script>]]>\"'`=1+1|\u202e\0\ud800"
FORMULA = '=HYPERLINK("x")'


def hostile() -> Comparison:
    """Return a comparison in which every text that comes from outside tries to break out."""
    comparison = sample_comparison(LADDER[:3], num_prompts=3, repeats=2)
    columns = tuple(
        msgspec.structs.replace(
            column, label=f"{column.id} {HOSTILE}", path=HOSTILE, type_name=HOSTILE, notices=(HOSTILE,)
        )
        for column in comparison.columns
    )
    cells = tuple(
        msgspec.structs.replace(cell, text=HOSTILE + cell.text, error=HOSTILE if number == 2 else "")
        for number, cell in enumerate(comparison.cells)
    )
    failed = sample_column("X", error=HOSTILE)
    prompts = tuple(
        msgspec.structs.replace(prompt, messages=(msgspec.structs.replace(prompt.messages[0], content=HOSTILE),))
        for prompt in comparison.prompts
    )
    return msgspec.structs.replace(
        comparison,
        columns=(*columns, failed),
        cells=cells,
        prompts=prompts,
        notes=(HOSTILE,),
        prompts_name=HOSTILE,
        created_at=HOSTILE,
    )


class Page(html.parser.HTMLParser):
    """A page as a browser splits it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def report() -> str:
    return to_html(sample_comparison())


def test_report_answers_first(report: str) -> None:
    page = Page(report)
    assert page.open == []
    assert (
        page.text.index("Answer")
        < page.text.index("Figures")
        < page.text.index("Replies")
        < page.text.index("Settings")
    )
    assert "is the smallest file within your bar" in page.text
    assert page.tags.count("svg") >= 5
    assert page.tags.count("table") == 2


def test_report_fetches_nothing(report: str) -> None:
    page = Page(report)
    assert not {"link", "img", "iframe", "object", "embed", "audio", "video", "form", "a", "base"} & set(page.tags)
    assert [pair for pair in page.attributes if pair[0] in ("src", "href", "srcset", "action", "style", "data")] == []
    assert [name for name, _ in page.attributes if name.startswith("on")] == []
    assert "url(" not in report
    assert "@import" not in report
    policy = next(value for name, value in page.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_ids_are_there_once_and_what_is_named_exists(report: str) -> None:
    page = Page(report)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    named = [word for name, value in page.attributes if name in ("for", "aria-labelledby") for word in value.split()]
    assert set(named) <= set(ids)


def test_hostile_text_stays_text() -> None:
    comparison = hostile()
    text = to_html(comparison)
    page = Page(text)
    assert page.open == []
    assert "img" not in page.tags
    assert page.tags.count("script") == 2  # ours, and the record
    assert page.tags.count("style") == 1
    assert "\0" not in text
    assert "onerror=alert(1)" in page.text
    assert comparison_from_json(text.encode()).columns[0].label.startswith("F16 </script>")


@pytest.mark.parametrize(
    "comparison",
    [
        Comparison(id="x", created_at="", program=""),
        sample_comparison(LADDER[:1], num_prompts=1, repeats=1),
        sample_comparison(LADDER[:2], num_prompts=2, repeats=2, mode=Mode.RACE),
        sample_comparison(LADDER[:2], num_prompts=1, repeats=4, mode=Mode.SAMPLES),
        sample_comparison((), num_prompts=2),
        sample_comparison((LADDER[0], LADDER[1], LADDER[1]._replace(name="again")), num_prompts=2, noise=0.6),
    ],
    ids=["nothing", "one reply", "race", "samples", "no models", "noisy and twice"],
)
@pytest.mark.parametrize("ending", ["html", "json", "csv", "md"])
def test_every_comparison_can_be_reported(comparison: Comparison, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"report.{ending}"
    write_report(comparison, path)
    text = path.read_text("utf-8")
    assert text.endswith("\n") or ending == "json"
    if ending == "html":
        assert Page(text).open == []
    if ending in ("html", "json"):
        assert comparison_from_json(text.encode()) == comparison


def test_folders_are_in_the_record_alone() -> None:
    text = to_html(sample_comparison(LADDER[:2], num_prompts=1))
    assert "SmallBoat-135M-Q8_0.gguf" in Page(text).text
    assert "models/" not in Page(text).text


def test_columns_that_failed_say_why() -> None:
    comparison = sample_comparison(LADDER[:2], num_prompts=2)
    failed = sample_column("X", error="The file was removed.")
    text = to_html(msgspec.structs.replace(comparison, columns=(*comparison.columns, failed)))
    assert "The file was removed." in Page(text).text


def test_long_comparisons_show_a_part_and_hold_all() -> None:
    comparison = sample_comparison(LADDER[:2], num_prompts=205, repeats=1, num_words=5)
    page = Page(to_html(comparison))
    assert page.tags.count("details") == 201  # and the one that chooses columns
    assert "5 more prompts are in the record" in page.text


def test_json_has_what_was_computed_beside_the_record() -> None:
    comparison = sample_comparison(LADDER[:3])
    plain = json.loads(to_json(comparison))
    assert comparison_from_json(to_json(comparison).encode()) == comparison
    assert plain["computed"]["columns"]["Q8_0"]["figures"]["decode_rate"]["change"]["is_changed"] is True
    assert plain["computed"]["advice"]["sentence"]


def test_csv_has_a_line_for_each_reply_and_no_formulas() -> None:
    comparison = hostile()
    cells = (msgspec.structs.replace(comparison.cells[0], text=FORMULA), *comparison.cells[1:])
    text = to_csv(msgspec.structs.replace(comparison, cells=cells))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(cells)
    assert rows[0]["text"] == f"'{FORMULA}"
    assert float(rows[0]["decode_rate"]) == comparison.cells[0].values["decode_rate"]
    assert all(None not in row and None not in row.values() for row in rows)


def test_markdown_keeps_its_table_whole() -> None:
    lines = to_markdown(hostile()).splitlines()
    table = [line for line in lines if line.startswith("|")]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(counts) == 1
    assert len(table) == 6
    assert not any("<" in line for line in lines)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EACCES], ids=["disk full", "not allowed"])
def test_a_report_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", "utf-8")

    def fail(descriptor: int) -> None:
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ReportNotSaved, match=re.escape(os.strerror(failure))) as caught:
        write_report(sample_comparison(LADDER[:1], num_prompts=1), path)
    assert caught.value.hint
    assert path.read_text("utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("report.pdf", "names no kind of report"),
        ("report", "names no kind of report"),
        ("gone/report.html", "is not there"),
        ("folder.html", "is a folder"),
        ("a\0.html", "no name for a file"),
    ],
    ids=["ending", "no ending", "no folder", "folder", "NUL"],
)
def test_a_place_for_a_report_is_checked_before(tmp_path: Path, name: str, part: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UsageError, match=part):
        check_report_path(tmp_path / name)
    with pytest.raises((UsageError, ReportNotSaved)):
        write_report(sample_comparison(LADDER[:1], num_prompts=1), tmp_path / name)


def test_a_good_place_is_accepted(tmp_path: Path) -> None:
    for name in ("a.html", "a.HTML", "a.json", "a.csv", "a.md"):
        check_report_path(tmp_path / name)
