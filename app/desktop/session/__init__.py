"""The state behind the window: the model that is loaded and the conversation; no widgets."""
