"""`python -m cairn` is `cairn`: modules lie where Python is installed, not in the folder one happens to be in."""

import os
import sys

if sys.path and sys.path[0] in ("", os.getcwd()) and not os.path.isdir(os.path.join(os.getcwd(), "cairn")):
    del sys.path[0]  # `python -m` puts it first, so that any file there would stand in for the module of its name

from cairn.cli.main import main

main()
