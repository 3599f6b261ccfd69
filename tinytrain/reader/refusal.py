"""The refusal of a model: every reason at once, as a table.

In: rows of the support table. Out: an error. Must not know files.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinytrain.analysis.support import WHOLE_MODEL, SupportRow
from tinytrain.errors import InputError

FLOAT_REASON = "float32 arithmetic"
HYBRID_REASON = "hybrid: float32 activations with quantized weights"

_CONVERT_HINT = (
    "tinytrain needs a full-integer int8 model; convert with tf.lite.TFLiteConverter: "
    "optimizations = [tf.lite.Optimize.DEFAULT], representative_dataset = a generator of samples, "
    "target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8], "
    "inference_input_type = inference_output_type = tf.int8"
)
_OTHER_HINT = "change or split the model so that only supported operators remain"


class UnsupportedError(InputError):
    """The model holds something that is not supported.

    Attributes:
        rows: each refused operator with its index and reason, in file order; an operator with
            several reasons has several rows.
    """

    def __init__(self, rows: Iterable[SupportRow], where: str = "") -> None:
        self.rows: tuple[SupportRow, ...] = tuple(sorted(rows, key=lambda row: row.index))
        operators = len({row.index for row in self.rows if row.index != WHOLE_MODEL})
        what = "the model is not supported"
        if operators:
            noun = "operator is" if operators == 1 else "operators are"
            what = f"{operators} {noun} not supported"
        is_float = any(
            mark in row.reason for row in self.rows for mark in (FLOAT_REASON, HYBRID_REASON)
        )
        hint = _CONVERT_HINT if is_float or "uint8" in self.table() else _OTHER_HINT
        super().__init__("unsupported-model", "reader", what, where=where, hint=hint)

    def table(self) -> str:
        """The rows as aligned text, one a line."""
        width = max((len(row.operator) for row in self.rows), default=0)
        return "\n".join(
            f"  {'-' if row.index == WHOLE_MODEL else row.index:>4}  {row.operator:<{width}}  "
            f"{row.reason}"
            for row in self.rows
        )

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.table()}"
