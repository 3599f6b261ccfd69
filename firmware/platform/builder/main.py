"""SCons script of the platform: compiler flags, linking with the board's script, map file, size.

In: the board's manifest (its ``build`` table) and the project's options. Out: ``firmware.elf`` and
``firmware.map`` in the build folder. Every ``build.*`` value of the manifest can be changed in
platformio.ini through ``board_build.*``.
"""

import re
from pathlib import Path

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
board = env.BoardConfig()

arch_flags = list(board.get("build.arch_flags"))
optimization = board.get("build.optimization", "-O3")
ldscript = env.subst(board.get("build.ldscript"))
if not Path(ldscript).is_absolute():
    # Relative to the project, so that projects can move.
    ldscript = str(Path(env.subst("$PROJECT_DIR")) / ldscript)

env.Replace(
    AR="arm-none-eabi-ar",
    AS="arm-none-eabi-gcc",
    CC="arm-none-eabi-gcc",
    CXX="arm-none-eabi-g++",
    GDB="arm-none-eabi-gdb",
    LINK="arm-none-eabi-gcc",
    OBJCOPY="arm-none-eabi-objcopy",
    RANLIB="arm-none-eabi-ranlib",
    SIZETOOL="arm-none-eabi-size",
    ARFLAGS=["rc"],
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
    # Sections by name, so that PlatformIO's summary counts what the linker script places where.
    SIZEPROGREGEXP=r"^(?:\.vectors|\.text|\.rodata|\.ARM\.exidx|\.init_array|\.data)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.stack|\.data|\.bss)\s+(\d+).*",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
)

env.Append(
    CPPDEFINES=list(board.get("build.defines", [])),
    ASFLAGS=["-x", "assembler-with-cpp", *arch_flags],
    CFLAGS=["-std=gnu11"],
    CXXFLAGS=["-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"],
    CCFLAGS=[
        *arch_flags,
        optimization,
        "-g",
        # Debug information names files relative to the project: equal sources, equal firmware.
        "-ffile-prefix-map=" + env.subst("$PROJECT_DIR") + "=.",
        "-ffunction-sections",
        "-fdata-sections",
        "-fno-common",
        # The numbers must be those of the host: no fused multiply-add the source does not ask for.
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-fno-math-errno",
        "-Wall",
        "-Wextra",
    ],
    LINKFLAGS=[
        *arch_flags,
        optimization,
        "-nostartfiles",
        "--specs=nano.specs",
        "-Wl,--gc-sections",
        '-Wl,-Map="%s"' % (Path("$BUILD_DIR") / "${PROGNAME}.map"),
    ],
    LIBS=["m", "c", "gcc"],
)
env.Replace(LDSCRIPT_PATH=ldscript)


def named_kernels(project):
    """Stems of the files of tt_kernels that define what the other sources name, directly or not.

    The linker would drop the others; they need not even be compiled.
    """
    folder = project / "lib" / "tt_kernels" / "src"
    texts = {path: path.read_text("utf-8") for path in folder.glob("*.[ch]")}
    # These list all kernels, and so say nothing.
    texts = {path: text for path, text in texts.items() if not path.name.startswith("tt_kernels")}
    others = [
        path
        for root in ("lib", "src")
        for path in (project / root).rglob("*")
        if path.suffix in (".c", ".h", ".cpp", ".ino") and folder not in path.parents
    ]
    words = set()
    waiting = [path.read_text("utf-8", "replace") for path in others]
    while waiting:
        words.update(re.findall(r"\btt_\w+", waiting.pop()))
        for path in list(texts):
            offered = re.findall(r"^(?!static)\w[\w \t*]*?\b(tt_\w+)\(", texts[path], re.MULTILINE)
            if path.stem in words or words.intersection(offered):
                waiting.append(texts.pop(path))
    return {path.stem for path in folder.glob("*.c")} - {path.stem for path in texts}


kernels = named_kernels(Path(env.subst("$PROJECT_DIR")))
env.AddBuildMiddleware(
    lambda env, node: node if Path(node.srcnode().get_path()).stem in kernels else None,
    "*tt_kernels/src/*.c",
)

program = env.BuildProgram()
env.Depends(program, ldscript)

AlwaysBuild(env.Alias("nobuild", program))
buildprog = env.Alias("buildprog", program, program)
env.AddPlatformTarget(
    "size",
    program,
    env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE"),
    "Program Size",
    "Print the size of text, data and bss",
)
# What an upload does is the project's `upload_command`: it starts the emulator, or a flash tool.
env.AddPlatformTarget(
    "upload",
    program,
    env.VerboseAction("$UPLOADCMD", "Running upload_command on $SOURCE"),
    "Upload",
)

Default([buildprog, "size"])
