"""What to train: a model, a scheme, options.

In: the user's choices. Out: `Training`. Must not know how it is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tinytrain.train.options import TrainOptions
from tinytrain.train.scheme import SchemeTable


@dataclass(frozen=True)
class Training:
    """The model and every choice that shapes the training graph.

    Attributes:
        scheme: a preset, the path of a file, or what such a file holds.
    """

    model: Path
    scheme: str | SchemeTable = "head"
    options: TrainOptions = field(default_factory=TrainOptions)

    @property
    def scheme_name(self) -> str:
        """The scheme, for people."""
        return self.scheme if isinstance(self.scheme, str) else self.scheme.name
