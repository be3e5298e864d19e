"""The folders of C++ code to change, and each folder's own tests."""
import os

AREAS = ('core', 'formats', 'compiler', 'runtime', 'drivers', 'tools')
ENDINGS = ('.cc', '.h', '.hpp')

# The own tests of each folder, by ctest label (a folder of tests/) or by name. The nearest come first, and tests that need fewer
# targets come before others. A file belongs to the longest folder that contains it.
OWN = {
    'core': ['core', 'ir_evaluate_test', 'tensor', 'plan_test', 'ops_registry_test', 'fake_driver_conformance_test', 'scalar',
             'host_driver_test', 'conformance', 'runtime', 'collectives'],
    'core/custom_op.cc': ['ops'],
    'core/op_registry.cc': ['ops'],
    'core/scalar.h': ['scalar', 'ir', 'host'],
    'core/tape_ops.h': ['scalar', 'plan', 'host'],
    'formats/plan': ['plan', 'verify'],
    'formats/plan/check': ['plan', 'verify', 'streams'],
    'formats/onnx': ['onnx', 'import'],
    'formats/tensor': ['tensor'],
    'formats/machine_code': ['cuda'],
    'compiler': ['compile', 'passes'],
    'compiler/memory': ['memory', 'streams', 'compile'],
    'compiler/schedule': ['schedule', 'streams', 'compile'],
    'compiler/schedule/expand_loops.cc': ['fusion', 'schedule', 'e2e'],
    'compiler/schedule/gather_weights.cc': ['shard_gather_test', 'compile'],
    'compiler/fusion': ['fusion', 'compile', 'passes', 'streams'],
    'compiler/passes': ['passes', 'fusion', 'import'],
    'compiler/quantise': ['passes_test', 'passes', 'fixed_caches_test', 'shard_graphs_test', 'compile'],
    'compiler/import': ['import', 'buckets_test', 'streams_test', 'onnx', 'ops'],
    'compiler/ir': ['ir', 'scalar', 'passes'],
    'compiler/shard': ['shard', 'collective_ops_test'],
    'compiler/codegen': ['templates_test', 'emit_test', 'library_test', 'every_op_test', 'compile_test', 'emulated', 'cuda_test',
                         'cuda', 'compile'],
    'runtime': ['runtime', 'collectives', 'ops'],
    'runtime/verify': ['verify'],
    'runtime/testing': ['verify', 'no_allocation_test', 'e2e'],
    'drivers': ['conformance', 'processes'],
    'drivers/host': ['host', 'conformance', 'collectives'],
    'drivers/cuda': ['cuda', 'conformance'],
    'drivers/nccl': ['cuda', 'collectives'],
    'drivers/ops': ['ops'],
    'drivers/processes': ['processes'],
    'tools': ['tools'],
}


def own_labels(path):
    while path and path not in OWN:
        path = os.path.dirname(path)
    return OWN[path]


def files_of(source, area):
    """The C++ files of an area as sorted paths in the tree, without files that only run on a GPU."""
    if area.endswith(ENDINGS):
        return [area] if area.split('/')[0] in AREAS and os.path.isfile(os.path.join(source, area)) else []
    files = []
    for folder in AREAS if area == 'all' else [area.rstrip('/')]:
        if folder.split('/')[0] not in AREAS:
            continue
        for at, folders, names in os.walk(os.path.join(source, folder)):
            folders[:] = [f for f in folders if os.path.join(at, f) != os.path.join(source, 'compiler/codegen/cuda/device')]
            files += [os.path.relpath(os.path.join(at, n), source) for n in names if n.endswith(ENDINGS)]
    return sorted(files)
