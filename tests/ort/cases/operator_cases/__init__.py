"""Randomly drawn models of one operator each, or of several (graphs). ALL is {name: a function that makes a Case from a Draw}."""
from .attention import CASES as ATTENTION
from .blockwise import CASES as BLOCKWISE
from .contrib import CASES as CONTRIB
from .experts import CASES as EXPERTS
from .fused import CASES as FUSED
from .graphs import CASES as GRAPHS
from .narrow_floats import CASES as NARROW_FLOATS
from .projections import CASES as PROJECTIONS
from .quantised import CASES as QUANTISED
from .standard import CASES as STANDARD
from .case import Case, Draw

ALL = {**ATTENTION, **BLOCKWISE, **CONTRIB, **EXPERTS, **FUSED, **GRAPHS, **NARROW_FLOATS, **PROJECTIONS, **QUANTISED, **STANDARD}
