"""What a name in the library means."""

from pathlib import Path

import pytest

from models import LibraryEntry, match_entries
from tests.support.small_models import library_of, write_small


@pytest.fixture
def entries(tmp_path: Path) -> tuple[LibraryEntry, ...]:
    ours = tmp_path / "ours"
    for level in ("F16", "Q4_K_M"):
        write_small(ours / f"smol-{level}.gguf", name="SmolLM2 135M Instruct", level=level)
    write_small(ours / "base.gguf", name="SmolLM2 135M")
    write_small(ours / "one.gguf", name="Lonely Model")
    write_small(ours / "eye.gguf", name="Lonely Model", arch="clip")
    return library_of(tmp_path).scan().entries


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("smollm2-135m-instruct:q4_k_m", "smollm2-135m-instruct:q4_k_m"),
        ("SmolLM2-135M-Instruct:Q4_K_M", "smollm2-135m-instruct:q4_k_m"),
        ("SmolLM2 135M Instruct Q4_K_M", "smollm2-135m-instruct:q4_k_m"),
        ("smol-F16.gguf", "smollm2-135m-instruct:f16"),
        ("smol-f16", "smollm2-135m-instruct:f16"),
        ("instruct q4_k_m", "smollm2-135m-instruct:q4_k_m"),
        ("smollm2-135m", "smollm2-135m:q4_k_m"),
        ("lonely", "lonely-model:q4_k_m"),
    ],
)
def test_name_in_many_spellings_means_one(entries: tuple[LibraryEntry, ...], text: str, name: str) -> None:
    assert [entry.name.partition("@")[0] for entry in match_entries(entries, text)] == [name]


def test_id_and_the_beginning_of_it_mean_their_entry(entries: tuple[LibraryEntry, ...]) -> None:
    assert match_entries(entries, entries[0].id) == (entries[0],)


@pytest.mark.parametrize(("text", "count"), [("smollm2-135m-instruct", 2), ("smol", 3), ("135m", 3)])
def test_what_several_share_means_them_all(entries: tuple[LibraryEntry, ...], text: str, count: int) -> None:
    assert len(match_entries(entries, text)) == count


@pytest.mark.parametrize("text", ["", "  ", ":", "nothing", "smollm3", "\0", "日本"])
def test_what_fits_nothing_means_nothing(entries: tuple[LibraryEntry, ...], text: str) -> None:
    assert match_entries(entries, text) == ()
