"""Times calls of PyTorch on one GPU by events, as a graph of their kernels."""

import statistics

import torch


def graph_of(model, inputs):
    """A call that replays the model's eager kernels as one graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(*inputs)

    def replay(*, reads=(model, inputs)):  # keeps alive the memory that the graph reads
        graph.replay()

    return replay


def compiled(mode):
    """Returns a function that makes a warmed-up call of torch.compile in this mode."""
    def make(model, inputs):
        fast = torch.compile(model, mode=mode, fullgraph=True)
        for _ in range(4):
            fast(*inputs)
        return lambda: fast(*inputs)
    return make


def event_times(call, runs=60):
    """The median time of that many calls in microseconds."""
    for _ in range(10):
        call()
    times = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)
