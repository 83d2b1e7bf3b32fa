"""The colours of both looks, by role; widgets and stylesheets name roles and never a colour."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Colours:
    """One look; every value is `#RRGGBB`.

    Attributes:
        surface: side bars.
        raised: composer, buttons, menus.
        border: decorative, never the only cue.
        drafted: behind text that came from accepted drafts.
        control_border: outlines and handles that must be seen (3:1).
        series: of columns and lines that stand beside each other; never the only cue.
    """

    is_dark: bool
    bg: str
    surface: str
    raised: str
    user_block: str
    code: str
    code_head: str
    selection: str
    drafted: str
    text: str
    muted: str
    accent: str
    on_accent: str
    accent_hover: str
    link: str
    ok: str
    warn: str
    error: str
    border: str
    control_border: str
    hover: str
    code_style: str
    series: tuple[str, ...]


LIGHT = Colours(
    is_dark=False,
    bg="#FFFFFF",
    surface="#F6F7F9",
    raised="#FFFFFF",
    user_block="#EEF1F8",
    code="#F5F6F8",
    code_head="#EBEDF2",
    selection="#DCE5FA",
    drafted="#E0E9FB",
    text="#1A1C20",
    muted="#5A6270",
    accent="#2B59C3",
    on_accent="#FFFFFF",
    accent_hover="#244CA8",
    link="#1F56C9",
    ok="#1B7A43",
    warn="#8F5A00",
    error="#B3261E",
    border="#DADDE5",
    control_border="#858C9A",
    hover="#ECEEF3",
    code_style="xcode",
    series=("#2B59C3", "#B4460F", "#0F766E", "#7A3FB5"),
)

DARK = Colours(
    is_dark=True,
    bg="#16181D",
    surface="#1C1F25",
    raised="#23272F",
    user_block="#242A36",
    code="#111317",
    code_head="#20242B",
    selection="#2C3A5C",
    drafted="#1E2A44",
    text="#E4E6EA",
    muted="#9DA5B4",
    accent="#8FB0FF",
    on_accent="#10141C",
    accent_hover="#A9C2FF",
    link="#9AB7FF",
    ok="#6CCB8F",
    warn="#E0B35A",
    error="#FF8F85",
    border="#343A46",
    control_border="#6E7688",
    hover="#2A2F39",
    code_style="one-dark",
    series=("#8FB0FF", "#F2A272", "#5FD0C5", "#C9A2F5"),
)
