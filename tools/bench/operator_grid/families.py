"""The families of the grid; each is a module with `cases()`."""
import importlib

FAMILIES = {"attention": "attention_cases", "convolution": "convolution_cases", "scatter": "scatter_cases", "rows": "row_cases",
            "matmul": "matmul_cases", "map": "map_cases"}


def cases(family):
    return list(importlib.import_module(FAMILIES[family]).cases())
