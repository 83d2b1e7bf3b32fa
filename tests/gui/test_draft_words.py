"""What is said of drafting."""

from app.desktop.widgets.draft_words import speed_text
from engine import DrafterStats, DraftState, SpeculativeStats


def test_no_speed_is_told_where_nothing_was_drafted():
    assert speed_text(SpeculativeStats(state=DraftState.IDLE, net_speedup=1.0)) == ""


def test_speed_is_told_where_something_was_drafted():
    drafter = DrafterStats(drafter="ngram", num_drafts=2, num_drafted_tokens=8, num_accepted_tokens=5)
    assert speed_text(SpeculativeStats(state=DraftState.ON, net_speedup=1.38, drafters=(drafter,))) == "1.4× plain"
