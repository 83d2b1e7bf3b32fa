"""Which TeX is drawn: only commands and environments whose drawings were looked at; all else stays source.

The library that draws prints what it does not know as text, or leaves it out, so nothing goes to it unchecked.
"""

import re

MAX_DEPTH = 8  # its work doubles with each level

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}&]|[^\\{}&]", re.DOTALL)
_ENVIRONMENT = re.compile(r"\{([A-Za-z]+\*?)\}")
_TEXT_ARGUMENT = re.compile(r"\{([^{}\\$%&<>#_^~]*)\}")
_NAME_ARGUMENT = re.compile(r"\{([A-Za-z]+)\}")
_LETTER_ARGUMENT = re.compile(r"\{([A-Z])\}")
_DELIMITER = re.compile(r"\s*(?:[()\[\]|./]|\\(?:[{}|]|[lr](?:angle|floor|ceil|vert|Vert)\b|vert\b|Vert\b|\|))")

_ENVIRONMENTS = frozenset(
    ("aligned", "align*", "split", "cases", "matrix", "pmatrix", "bmatrix", "vmatrix", "equation*", "equation")
)
_TEXT_COMMANDS = frozenset((r"\text", r"\textbf", r"\textit", r"\textrm", r"\mathrm"))
_SIZES = re.findall(r"\w+", "big bigl bigr bigm Big Bigl Bigr Bigm bigg biggl biggr biggm Bigg Biggl Biggr Biggm")
_DELIMITED = frozenset(rf"\{name}" for name in ("left", "right", "middle", *_SIZES))
_NAMES = """
    frac dfrac tfrac cfrac sqrt binom dbinom tbinom overset underset stackrel overline underline widehat widetilde
    overrightarrow overleftarrow underbrace overbrace boxed hat bar vec dot ddot tilde mathbf mathit mathrm mathcal
    mathfrak mathscr boldsymbol bm displaystyle limits nolimits
    sum prod int iint oint lim sup inf max min limsup liminf argmax argmin det gcd Pr arg bigcup bigcap bigoplus coprod
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp dim ker deg hom
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega
    varepsilon vartheta varphi varrho varsigma Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
    le leq ge geq ne neq approx equiv sim simeq cong propto ll gg lt gt in notin ni subset subseteq supset supseteq
    cup cap setminus emptyset varnothing forall exists neg lnot land wedge lor vee implies iff to gets mapsto
    rightarrow leftarrow leftrightarrow Rightarrow Leftarrow Leftrightarrow longrightarrow uparrow downarrow
    nabla partial infty cdot times div pm mp ast star circ bullet oplus otimes ldots cdots vdots ddots dots
    hbar ell Re Im aleph prime angle triangle perp parallel mid nmid therefore because dagger top
    lfloor rfloor lceil rceil langle rangle lvert rvert lVert rVert vert Vert colon quad qquad pmod xrightarrow
    xleftarrow choose
    """
_COMMANDS = frozenset(rf"\{name}" for name in re.findall(r"\w+", _NAMES))
_ESCAPES = frozenset(("\\,", "\\;", "\\:", "\\!", "\\ ", "\\{", "\\}", "\\%", "\\$", "\\#", "\\_", "\\|"))
_ROW_END = "\\\\"


def is_supported(tex: str) -> bool:
    """Tell whether `tex`, without its delimiters, is drawn as it is meant."""
    return bool(tex.strip()) and all(map(_is_drawable, tex)) and _Reader(tex).read()


def _is_drawable(character: str) -> bool:
    if character.isascii():
        return (character.isprintable() and character not in '%#"`$') or character in "\n\t"
    # Latin-1 letters, Greek, arrows and mathematical signs; the font has no others for certain.
    return (
        character in "²³·×÷±°"
        or "\u00c0" <= character <= "\u00ff"
        or "\u0391" <= character <= "\u03c9"
        or ("\u2190" <= character <= "\u2194" or "\u2200" <= character <= "\u22ff")
    )


class _Reader:
    """Reads one formula token by token."""

    def __init__(self, tex: str) -> None:
        self._tex = tex
        self._position = 0
        self._depth = 0
        self._num_left = 0
        self._environments: list[str] = []

    def read(self) -> bool:
        """Tell whether every token is known and everything that opens closes."""
        while self._position < len(self._tex):
            match = _TOKEN.match(self._tex, self._position)
            if match is None:
                return False
            self._position = match.end()
            if not self._take(match.group()):
                return False
        return not (self._depth or self._num_left or self._environments)

    def _take(self, token: str) -> bool:
        if token.startswith("\\"):
            return self._take_command(token)
        if token in "{}":
            self._depth += 1 if token == "{" else -1
            return 0 <= self._depth <= MAX_DEPTH - self._num_left - 2 * len(self._environments)
        return token != "&" or bool(self._environments)

    def _take_command(self, command: str) -> bool:
        if command in (r"\begin", r"\end"):
            return self._take_environment(command)
        if command in _DELIMITED:
            return self._take_delimited(command)
        if command in _TEXT_COMMANDS and self._take_argument(_TEXT_ARGUMENT):
            return True
        if command == r"\operatorname":
            return self._take_argument(_NAME_ARGUMENT)
        if command == r"\mathbb":
            return self._take_argument(_LETTER_ARGUMENT)
        if command == _ROW_END:
            return bool(self._environments)
        if command == r"\text" or command.endswith("*"):
            return False
        return command in _COMMANDS or command in _ESCAPES

    def _take_argument(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._tex, self._position)
        if match is None:
            return False
        self._position = match.end()
        return True

    def _take_environment(self, command: str) -> bool:
        match = _ENVIRONMENT.match(self._tex, self._position)
        if match is None:
            return False
        self._position = match.end()
        name = match.group(1)
        if command == r"\begin":
            self._environments.append(name)
            return name in _ENVIRONMENTS and len(self._environments) <= 3
        return bool(self._environments) and self._environments.pop() == name

    def _take_delimited(self, command: str) -> bool:
        if not self._take_argument(_DELIMITER):
            return False
        self._num_left += {r"\left": 1, r"\right": -1}.get(command, 0)
        return self._num_left >= 0 and self._depth + self._num_left <= MAX_DEPTH
