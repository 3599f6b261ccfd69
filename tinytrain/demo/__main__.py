"""``python -m tinytrain.demo FOLDER``: write the demonstration's model and data as files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

from tinytrain.demo.data import MODEL_PATH, load


def write(folder: Path) -> None:
    """Write digits.tflite and digits.npz into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(MODEL_PATH, folder / "digits.tflite")
    np.savez(folder / "digits.npz", **load())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tinytrain.demo FOLDER")
    write(Path(sys.argv[1]))
    print(f"wrote {sys.argv[1]}/digits.tflite and {sys.argv[1]}/digits.npz")
