"""Speculative decoding: what drafts tokens, and whether it pays."""
