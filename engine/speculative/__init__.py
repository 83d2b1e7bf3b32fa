"""Speculative decoding: who drafts tokens, how drafts are verified, and when drafting pays."""
