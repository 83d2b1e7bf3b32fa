"""What a step costs by its work, learned from steps: seconds = base + a * tokens + b * tokens * context."""

from collections import deque

_WINDOW = 48
_REFIT_EVERY = 8
_RIDGE = 0.05  # how strongly a fit keeps to the one before, where the steps say little
_ENOUGH = 4

_Triple = tuple[float, float, float]


class StepCost:
    """The cost of one kind of step at one level of speed.

    Attributes:
        last_s: expected seconds of the step that was asked for last.
    """

    def __init__(self) -> None:
        self.last_s = 0.0
        self._weights: _Triple | None = None
        self._steps: deque[tuple[_Triple, float]] = deque(maxlen=_WINDOW)
        self._num_seen = 0

    @property
    def is_known(self) -> bool:
        """Whether enough steps were seen to judge one."""
        return self._num_seen >= _ENOUGH

    def expected(self, num_tokens: int, num_context: int) -> float | None:
        """Return the seconds that a step should take, None before the first was seen."""
        if self._weights is None:
            return None
        self.last_s = max(_dot(self._weights, _features(num_tokens, num_context)), 1e-7)
        return self.last_s

    def learn(self, num_tokens: int, num_context: int, seconds: float) -> None:
        """Take a step that took about what was expected."""
        features = _features(num_tokens, num_context)
        if self._weights is None:
            # Half of a first step is taken to be reading the weights; the next ones say more.
            self._weights = (seconds / 2, seconds / 2 / num_tokens, 0.0)
        self._steps.append((features, seconds))
        self._num_seen += 1
        if self._num_seen % _REFIT_EVERY == 0 or self._num_seen <= _ENOUGH:
            self._weights = self._fitted(self._weights)

    def rescale(self, factor: float) -> None:
        """All steps take `factor` of what they took: another thread count, or another speed of the machine."""
        if self._weights is not None:
            first, second, third = self._weights
            self._weights = (first * factor, second * factor, third * factor)
        self._steps = deque(((features, seconds * factor) for features, seconds in self._steps), maxlen=_WINDOW)

    def _fitted(self, old: _Triple) -> _Triple:
        """Least squares of relative errors, drawn towards the old weights."""
        matrix = [[0.0] * 3 for _ in range(3)]
        target = [0.0] * 3
        for features, seconds in self._steps:
            shares = [feature / seconds for feature in features]
            for i in range(3):
                target[i] += shares[i]
                for j in range(3):
                    matrix[i][j] += shares[i] * shares[j]
        for i in range(3):
            pull = _RIDGE * (matrix[i][i] or 1.0)
            matrix[i][i] += pull
            target[i] += pull * old[i]
        first, second, third = _solved(matrix, target)
        if min(first, second, third) >= 0:
            return first, second, third
        scale = sum(seconds for _, seconds in self._steps) / sum(_dot(old, features) for features, _ in self._steps)
        return old[0] * scale, old[1] * scale, old[2] * scale


def _features(num_tokens: int, num_context: int) -> _Triple:
    return 1.0, float(num_tokens), num_tokens * num_context / 1000


def _dot(weights: _Triple, features: _Triple) -> float:
    return weights[0] * features[0] + weights[1] * features[1] + weights[2] * features[2]


def _solved(matrix: list[list[float]], target: list[float]) -> list[float]:
    """Solve three equations by elimination; the pull on the diagonal keeps them solvable."""
    rows = [[*row, value] for row, value in zip(matrix, target, strict=True)]
    for i in range(3):
        pivot = max(range(i, 3), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(3):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [rows[i][3] / rows[i][i] for i in range(3)]
