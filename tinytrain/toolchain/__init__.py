"""Tools outside Python: host compiler, PlatformIO, QEMU. Sees folders and boards, never graphs."""
