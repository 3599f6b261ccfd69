"""From a memory plan to the files of a PlatformIO project in C.

In: a `Plan` and boards. Out: path -> bytes. Only `project.write_project` touches the disk.
"""

from codegen.project import generate, write_project

__all__ = ["generate", "write_project"]
