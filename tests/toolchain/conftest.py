"""Projects made from our templates, platform and port, as the project writer makes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import jinja2
import pytest

from tinytrain.boards import DEFAULT_STACK_BYTES, Board, get_board, platformio_manifest
from tinytrain.resources import data_dir
from tinytrain.toolchain.platformio import Firmware, build_project

HERE = Path(__file__).resolve().parent

MakeProject = Callable[..., Path]
BuildProbe = Callable[..., Firmware]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of these tests' own, so that nothing built earlier helps them."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYTRAIN_CACHE", str(folder))
        yield folder


def write_project(folder: Path, boards: list[Board], main: str, *, ini: str = "") -> Path:
    """Write a project for `boards` whose `src/main.c` is `main`; `ini` is added to its options."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    (folder / "src").mkdir(parents=True)
    (folder / "boards").mkdir()
    options = templates.get_template("platformio.ini.j2")
    (folder / "platformio.ini").write_text(
        options.render(project_name="probe", boards=boards, port=7447) + ini
    )
    (folder / "src" / "main.c").write_text(main)
    script = templates.get_template("link.ld.j2")
    for board in boards:
        (folder / "boards" / f"{board.name}.json").write_text(platformio_manifest(board))
        (folder / "boards" / f"{board.name}.ld").write_text(
            script.render(board=board, stack_bytes=DEFAULT_STACK_BYTES)
        )
    firmware = data_dir("firmware")
    shutil.copytree(firmware / "platform", folder / "platform" / "tinytrain-cortexm")
    shutil.copytree(firmware / "ports" / "qemu", folder / "lib" / "tt_port_qemu")
    return folder


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """Write a project: board names, main.c, and optionally a name and more of platformio.ini."""

    def make(names: list[str], main: str, *, name: str = "project", ini: str = "") -> Path:
        return write_project(tmp_path / name, [get_board(n) for n in names], main, ini=ini)

    return make


@pytest.fixture(scope="session")
def build_probe(tmp_path_factory: pytest.TempPathFactory) -> BuildProbe:
    """Build probe.c for a board, once a session; `flags` are added for the whole program."""
    built: dict[tuple[str, str], Firmware] = {}

    def build(board: str, flags: str = "") -> Firmware:
        if (board, flags) not in built:
            folder = tmp_path_factory.mktemp("probe") / "project"
            ini = f"build_flags = {flags}\n" if flags else ""
            write_project(folder, [get_board(board)], (HERE / "probe.c").read_text(), ini=ini)
            built[board, flags] = build_project(folder, board)
        return built[board, flags]

    return build
