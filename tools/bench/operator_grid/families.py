"""The families of the grid; each is a module with `cases()`, its fixed shapes, and `draw(random)`, a shape at random."""
import importlib
import random

FAMILIES = {"attention": "attention_cases", "convolution": "convolution_cases", "scatter": "scatter_cases", "rows": "row_cases",
            "matmul": "matmul_cases", "map": "map_cases", "place": "place_cases"}


def add_options(parser):
    parser.add_argument("--drawn", type=int, help="instead of the fixed shapes, this many of each family at random")
    parser.add_argument("--seed", type=int, default=1, help="which ones --drawn draws")


def cases(family, options):
    """The fixed shapes of a family, or those that --drawn and --seed draw."""
    module = importlib.import_module(FAMILIES[family])
    if options.drawn is None:
        return list(module.cases())
    generator = random.Random(f"{family} {options.seed}")
    drawn = {case.name: case for case in (module.draw(generator) for _ in range(options.drawn))}
    return list(drawn.values())
