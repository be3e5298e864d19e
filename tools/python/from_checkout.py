"""Builds the project two folders up: what pyproject.toml there says, with CMake over the whole checkout."""
import os
import pathlib

os.chdir(pathlib.Path(__file__).resolve().parent.parent.parent)
from scikit_build_core.build import *  # noqa: E402, F401, F403
