"""PlatformIO development platform: bare-metal C for the Cortex-M boards that tinytrain describes.

In: the project's options. Out: which packages a build needs. Serves users with and without
access to PlatformIO's registry: an Arm compiler on PATH is used, otherwise the registry's one.
"""

import shutil

from platformio.platform.base import PlatformBase

TOOLCHAIN = "toolchain-gccarmnoneeabi"
COMPILER = "arm-none-eabi-gcc"


class TinytraincortexmPlatform(PlatformBase):
    """The class name is the platform's name as PlatformIO spells it."""

    def is_embedded(self):
        """Say that results are firmware: the base class concludes it from uploader packages."""
        return True

    def configure_default_packages(self, options, targets):
        """Decide whether the registry's compiler is needed.

        The base class is not asked: it would require all uploader packages for ``-t upload``, and
        uploading here is a command in platformio.ini. A compiler that the project asks for in
        ``platform_packages`` stays required.
        """
        asked_for = any(TOOLCHAIN in item for item in options.get("platform_packages") or [])
        if not asked_for:
            self.packages[TOOLCHAIN]["optional"] = shutil.which(COMPILER) is not None
