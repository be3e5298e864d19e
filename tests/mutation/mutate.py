#!/usr/bin/env python3
"""Changes the C++ code at one random place and checks that a test fails. README.md says how to use it."""
import argparse
import difflib
import os
import random
import signal
import sys
from dataclasses import dataclass, field

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import areas
import changes
import records
import together
import workplace

DRAWN_PER_CHANGE = 12  # places drawn for each wanted change: some do not compile, some are equivalent
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


@dataclass
class Totals:
    tried: int = 0
    found: int = 0
    found_at_first: int = 0
    not_compiled: int = 0
    equivalent: int = 0
    survivors: list = field(default_factory=list)

    def text(self, area, seed):
        percent = 100.0 * self.found / self.tried if self.tried else 100.0
        text = (f'{area}, seed {seed}: {self.tried} changes, {self.found} found, {len(self.survivors)} survived, '
                f'{percent:.0f} %')
        if self.found_at_first != self.found:
            text += f' ({self.found_at_first} found when they were first tried)'
        return text + (f'; {self.equivalent} equivalent ones skipped, {self.not_compiled} did not compile')


def draw(source, area, seed, count):
    """`count` places of an area in random order, each with one of its replacements."""
    files = areas.files_of(source, area)
    everything = []
    for path in files:
        text = workplace.read(source, path)
        everything += [(path, text, site) for site in changes.find_sites(text, path.endswith(('.h', '.hpp')))]
    numbers = random.Random(f'{area} {seed}')
    numbers.shuffle(everything)
    drawn = []
    for path, text, site in everything[:count]:
        becomes = numbers.choice(site.becomes)
        line, was, new = changes.lines_changed(text, site.at, site.end, becomes)
        drawn.append(records.Change(path, line, site.kind, was, new))
    return drawn, len(everything)


def place_of(text, change):
    """The position of the lines that the change changes; None if they no longer exist."""
    places, at = [], text.find(change.was)
    while at >= 0:
        whole = (at == 0 or text[at - 1] == '\n') and text[at + len(change.was):at + len(change.was) + 1] in ('', '\n')
        if whole:
            places.append(at)
        at = text.find(change.was, at + 1)
    return min(places, key=lambda at: abs(changes.line_of(text, at) - change.line)) if places else None


def locate(text, change):
    """The file's text after the change; None if the lines that it changes no longer exist."""
    at = place_of(text, change)
    return None if at is None else text[:at] + change.becomes + text[at + len(change.was):]


def diff_text(text, changed, path):
    lines = difflib.unified_diff(text.splitlines(), changed.splitlines(), f'a/{path}', f'b/{path}', lineterm='', n=2)
    return '\n'.join(lines)


def own_tests(path, args):
    return args.tests or areas.own_labels(path)


def try_change(place, change, args):
    """Returns ('found', the test), ('survived', '') or ('not compiled', ''); None if the unchanged tree does not build. Runs the nearest
    tests first, and builds only what the next tests need."""
    text = workplace.read(place.tree, change.path)
    changed = locate(text, change)
    groups = [[label] for label in own_tests(change.path, args)] + ([] if args.own else [None])
    tried, compiled = [], False
    try:
        for labels in groups:
            names = place.tests_of(labels, without=tried)
            if not names:
                continue
            tried += names
            if place.unmeasured(names):
                place.write(change.path, text)
                if not place.measure(names):
                    return None
            place.write(change.path, changed)
            built = place.build(names)
            if built == 'failed':
                return 'not compiled', ''
            if built == 'nothing to do':
                continue  # their programs contain nothing of this file
            compiled = True
            by = place.first_failure(names)
            if by:
                return 'found', by
        return ('survived', '') if compiled else ('not compiled', 'no test has this file')
    finally:
        place.write(change.path, text)  # restores the file; the next change builds it again


def build_together(place, numbered, names, texts):
    """Builds the tests with all these changes together; `changes` is by number. Removes changes that do not compile in this form. False
    if the tree does not even build without them."""
    while True:
        lines = {}
        for path, text in texts.items():
            places = together.Places(text, path.endswith(('.h', '.hpp')))
            edits = []
            for number, change in numbered.items():
                if change.path == path:
                    at = place_of(text, change)
                    begin, end, becomes = together.changed_span(change.was, change.becomes)
                    edits.append(places.edit(number, at + begin, at + end, becomes))
            combined, lines[path] = together.put_together(text, [edit for edit in edits if edit])
            place.write(path, combined if lines[path] else text)
        for number in [n for n, change in numbered.items() if n not in lines[change.path]]:
            del numbered[number]
        if place.build(names) != 'failed':
            return True
        wrong = set()
        for path, line in together.places_of_errors(place.errors):
            path = os.path.relpath(os.path.normpath(os.path.join(place.build_folder, path)), place.tree)
            there = {n for n, (first, last) in lines.get(path, {}).items() if first <= line <= last}
            wrong |= there or set(lines.get(path, {}))
        if not numbered:
            return False
        for number in wrong or list(numbered):
            del numbered[number]


def try_together(place, untried, args, kept, say):
    """Tries the changes that can be built together, and keeps their results. False if the unchanged tree does not build."""
    texts = {change.path: workplace.read(place.tree, change.path) for change in untried}
    numbered = dict(enumerate(untried, 1))
    tried, reached = {n: [] for n in numbered}, set()
    try:
        for depth in range(max(len(own_tests(path, args)) for path in texts) + (not args.own)):
            names_of = {}
            for number, change in numbered.items():
                labels = own_tests(change.path, args)
                names_of[number] = (place.tests_of(labels[depth:depth + 1], tried[number]) if depth < len(labels) else
                                    place.tests_of(None, tried[number]) if depth == len(labels) and not args.own else [])
            names = sorted({name for names in names_of.values() for name in names})
            if not names:
                continue
            if not build_together(place, numbered, names, texts) or not place.measure(names):
                return False
            for number, change in list(numbered.items()):
                tried[number] += names_of[number]
                having = [name for name in place.quickest_first(names_of[number]) if place.has_file(name, change.path)]
                reached |= {number} if having else set()
                place.chosen = number
                by = place.first_failure(having)
                place.chosen = 0
                if by:
                    kept.add(change, 'found', by)
                    say(f'{change.path}:{change.line} found by {by}')
                    del numbered[number]
    finally:
        for path, text in texts.items():
            place.write(path, text)
    for number, change in numbered.items():
        kept.add(change, *(('survived', '') if number in reached else ('not compiled', 'no test has this file')))
    return True


def run_together(place, drawn, args, kept, equivalents, say):
    """Tries those of a draw's first changes that can be built together, so that `run` finds their results. False if the unchanged tree
    does not build."""
    untried, counted = [], 0
    for change in drawn:
        before = kept.get(change)
        if counted == args.count:
            break
        if equivalents.reason(change) or place_of(workplace.read(place.tree, change.path), change) is None or (
                before and before.outcome == 'not compiled'):
            continue
        counted += 1
        if before is None or (args.again and before.outcome == 'survived'):
            untried.append(change)
    return not untried or try_together(place, untried, args, kept, say)


def run(place, drawn, args, kept, equivalents, say):
    totals = Totals()
    for change in drawn:
        if totals.tried == args.count:
            break
        if locate(workplace.read(place.tree, change.path), change) is None:
            continue  # the code has changed since the draw
        if equivalents.reason(change):
            totals.equivalent += 1
            continue
        before = kept.get(change)
        again = args.again and not args.together
        if before is None or (again and before.outcome == 'survived'):
            tried = try_change(place, change, args)
            if tried is None:
                return None
            kept.add(change, *tried)
        now = kept.get(change)
        if now.outcome == 'not compiled':
            totals.not_compiled += 1
            if now.by:
                say(f'{change.path}:{change.line}: {now.by}')
            continue
        totals.tried += 1
        totals.found += now.outcome == 'found'
        totals.found_at_first += now.first == 'found'
        by = f' by {now.by}' if now.by else ''
        say(f'{totals.tried}/{args.count} {change.path}:{change.line} {change.kind}: {now.outcome}{by}')
        if now.outcome == 'survived':
            totals.survivors.append(change)
            text = workplace.read(place.tree, change.path)
            say(diff_text(text, locate(text, change), change.path))
    return totals


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('area', help='a folder such as compiler/memory, a file of it, or all')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=20, metavar='N', help='changes to try (20)')
    parser.add_argument('--own', action='store_true', help="run the area's own tests alone (areas.py says which these are)")
    parser.add_argument('--tests', type=lambda names: names.split(','), metavar='NAME,...',
                        help='labels or names of tests to run in place of those of areas.py')
    parser.add_argument('--again', action='store_true', help='try those that survived before once more')
    parser.add_argument('--together', action='store_true', help='build the changes together, where that can be done: quicker')
    parser.add_argument('--list', action='store_true', help='print the changes drawn, try none')
    parser.add_argument('--work', default=os.path.join(os.environ.get('TMPDIR', '/tmp'), 'rondo-mutation'), metavar='DIR',
                        help='copy of the tree, build folder and results; kept (%(default)s)')
    parser.add_argument('--equivalent', default=os.path.join(SOURCE, 'tests/mutation/equivalent.txt'), metavar='FILE',
                        help='changes that no test can find, each with the reason (%(default)s)')
    parser.add_argument('--jobs', type=int, default=1, metavar='N', help='of the build (1)')
    return parser.parse_args(argv)


def main(argv):
    args = parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that processes started here end too
    say = lambda text: print(text, flush=True)
    if not areas.files_of(SOURCE, args.area):
        print(f'mutate: no C++ file of {areas.AREAS} is in "{args.area}"', file=sys.stderr)
        return 2
    equivalents = records.Equivalents(args.equivalent)
    kept = records.Results(args.work, args.area, args.seed)
    drawn = kept.drawn()
    if len(drawn) < args.count * DRAWN_PER_CHANGE:
        drawn, places = draw(SOURCE, args.area, args.seed, args.count * DRAWN_PER_CHANGE)
        say(f'{args.area}, seed {args.seed}: {places} places')
        if not args.list:
            kept.keep_draw(drawn)
    if args.list:
        for change in drawn[:args.count]:
            say(f'{change.path}:{change.line} {change.kind}\n- {change.was}\n+ {change.becomes}')
        return 0
    place = workplace.Workplace(SOURCE, args.work, args.jobs, say)
    if not place.prepare():
        return 1
    if args.together and not run_together(place, drawn, args, kept, equivalents, say):
        print('mutate: the tree does not build without a change', file=sys.stderr)
        return 1
    totals = run(place, drawn, args, kept, equivalents, say)
    if totals is None:
        print('mutate: the tree does not build without a change', file=sys.stderr)
        return 1
    say(totals.text(args.area, args.seed))
    return 0 if not totals.survivors else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
