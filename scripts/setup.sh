#!/bin/sh
# Set up what the Makefile's targets need. Safe to run again; says what it installs.
#
#   scripts/setup.sh demo     .venv with tinytrain, and a C compiler
#   scripts/setup.sh board    the same, PlatformIO, the ARM compiler and QEMU
#   scripts/setup.sh check    .venv with tinytrain and the development tools
#   scripts/setup.sh test     all of it
#
# System packages are installed on Debian and its relatives, as root or through a sudo that asks
# for no password; TINYTRAIN_NO_APT=1 forbids it. PYTHON names the interpreter (default: python3).
set -eu

cd "$(dirname "$0")/.."
venv=.venv
apt_lists_are_fresh=no

say() {
    echo "setup: $*" >&2
}

die() {
    say "$*"
    exit 1
}

# Run a command as root, or fail.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# Install Debian packages; fails where that is not possible or not allowed.
apt_install() {
    if [ -n "${TINYTRAIN_NO_APT:-}" ] || ! command -v apt-get >/dev/null 2>&1; then
        return 1
    fi
    as_root true || return 1
    say "installing with apt-get: $*"
    if [ "$apt_lists_are_fresh" = no ]; then
        as_root apt-get -qq update >&2 || say "apt-get update failed; trying with the old lists"
        apt_lists_are_fresh=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y --no-install-recommends install "$@" >&2
}

check_platform() {
    case "$(uname -s)" in
    Linux | Darwin) ;;
    *) die "this platform is not supported: use Linux, macOS, or Linux inside Windows (WSL)" ;;
    esac
}

find_python() {
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null 2>&1 || die "no $python: install Python 3.10 or later"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        die "$python is $("$python" --version 2>&1): 3.10 or later is needed (set PYTHON)"
}

make_venv() {
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        apt_install python3-venv ||
            die "$python cannot make virtual environments: apt install python3-venv"
    fi
    say "making $venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv" ||
        die "cannot make $venv; on Debian and Ubuntu: apt install python3-venv"
}

pip_install() {
    say "installing with pip into $venv: $*"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Whether a command is a C compiler that finds the C library.
compiles() {
    folder=$(mktemp -d)
    echo '#include <math.h>
int main(int argc, char **argv) { (void)argv; return sqrt((double)argc) > 9.0; }' >"$folder/a.c"
    # the command may have arguments of its own
    # shellcheck disable=SC2086
    if $1 "$folder/a.c" -o "$folder/a" -lm >/dev/null 2>&1; then status=0; else status=1; fi
    rm -rf "$folder"
    return $status
}

ensure_c_compiler() {
    for command in "${CC:-cc}" cc gcc clang; do
        if compiles "$command"; then
            return
        fi
    done
    if apt_install gcc libc6-dev; then
        return
    fi
    say "no C compiler here, and none can be installed for the system: taking Zig's from PyPI"
    pip_install ziglang
}

# The drivers of the boards' flash are C++; tests run them on this machine.
ensure_cxx_compiler() {
    if command -v g++ >/dev/null 2>&1 || apt_install g++; then
        return
    fi
    say "no g++: the tests of the boards' flash drivers are skipped. On Debian: sudo apt install g++"
}

ensure_arm_tools() {
    set --
    specs=$(arm-none-eabi-gcc -print-file-name=nano.specs 2>/dev/null || true)
    case $specs in
    /*) ;;
    *) set -- gcc-arm-none-eabi libnewlib-arm-none-eabi ;;
    esac
    command -v qemu-system-arm >/dev/null 2>&1 || set -- "$@" qemu-system-arm
    if [ $# -eq 0 ] || apt_install "$@"; then
        return
    fi
    say "not installed: $*"
    say "firmware cannot be built or emulated without. On Debian and Ubuntu: sudo apt install $*"
    say "On macOS: brew install --cask gcc-arm-embedded; brew install qemu"
}

ready() {
    for name in "$@"; do
        : >"$venv/ready-$name"
    done
}

mode=${1:-}
case $mode in
demo | board | check | test) ;;
*) die "usage: scripts/setup.sh demo|board|check|test" ;;
esac
check_platform
find_python
make_venv
case $mode in
demo)
    pip_install -e '.[demo]'
    ensure_c_compiler
    ready demo
    ;;
board)
    pip_install -e '.[demo,firmware]'
    ensure_c_compiler
    ensure_arm_tools
    ready demo board
    ;;
check)
    pip_install -e '.[dev]'
    ready check
    ;;
test)
    pip_install -e '.[dev]'
    ensure_c_compiler
    ensure_cxx_compiler
    ensure_arm_tools
    ready demo board check test
    ;;
esac
