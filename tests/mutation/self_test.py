#!/usr/bin/env python3
"""Tests the scripts without a compiler: the places that they find, and their conclusions from the outcomes."""
import contextlib
import io
import os
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import areas
import changes
import mutate
import records
import together
import workplace

CODE = '''// a comment: a < b
#include <limits>
#define LESS(a, b) ((a) < (b))
static_assert(sizeof(int) == 4);
enum class Kind { kOne = 1 };
template <int kSize = 3>
int Count(const std::vector<int>& xs, int first, int last) {
  int found = 0;
  for (int i = first; i < last; ++i) {
    if (xs[i] == 7 && !Skipped(xs, i)) {
      found += std::max(first, last);
      continue;
    }
    if (found > 100'000) return found;
    Note("text: 1 + 2 < 3", found);
    Swap(first, last);
  }
  return last - found;
}
'''
HEADER = '''inline constexpr int kMost = 5;
struct Box {
  int size = 1;
  bool Fits(int other, int most = 3) const { return other <= size; }
};
'''


def applied(text, site):
    return [text[:site.at] + new + text[site.end:] for new in site.becomes]


class FindsPlaces(unittest.TestCase):
    def lines(self, code, is_header=False):
        """Returns (line, kind) of each place, and each changed line without white space."""
        found, becomes = set(), set()
        for site in changes.find_sites(code, is_header):
            for new in site.becomes:
                line, _, changed = changes.lines_changed(code, site.at, site.end, new)
                found.add((line, site.kind))
                becomes.add(changed.strip().split('\n')[0])
        return found, becomes

    def test_in_code_that_runs_alone(self):
        found, _ = self.lines(CODE)
        self.assertEqual(min(line for line, _ in found), 8)
        self.assertNotIn((15, 'operator'), found)  # in a string
        self.assertNotIn((14, 'constant'), found)  # a budget

    def test_of_every_kind(self):
        _, becomes = self.lines(CODE)
        for line in ('int found = 1;', 'for (int i = first; i <= last; ++i) {', 'for (int i = first; i < last; --i) {',
                     'if (xs[i + 1] == 7 && !Skipped(xs, i)) {', 'if (xs[i] != 7 && !Skipped(xs, i)) {',
                     'if (xs[i] == 8 && !Skipped(xs, i)) {', 'if (xs[i] == 7 || !Skipped(xs, i)) {',
                     'if (xs[i] == 7 && Skipped(xs, i)) {', 'if (!(xs[i] == 7 && !Skipped(xs, i))) {',
                     'found -= std::max(first, last);', 'found += std::min(first, last);', '{}',
                     'if (found > 100\'000) {}', 'Swap(last, first);', 'return last + found;'):
            self.assertIn(line, becomes)

    def test_not_in_declarations_of_headers(self):
        _, becomes = self.lines(HEADER, is_header=True)
        self.assertEqual(becomes, {f'bool Fits(int other, int most = 3) const {{ return other {op} size; }}'
                                   for op in ('<', '>=')})

    def test_in_the_tree(self):
        for area in areas.AREAS:
            files = areas.files_of(mutate.SOURCE, area)
            self.assertTrue(files, area)
            for path in files[::20]:
                text = workplace.read(mutate.SOURCE, path)
                for site in changes.find_sites(text, path.endswith(('.h', '.hpp'))):
                    self.assertTrue(all(new != text for new in applied(text, site)), path)
            self.assertTrue(areas.own_labels(files[0]))


WRAPPED = '''constexpr int kMost = 7;
constexpr int Half(int x) { return x / 2; }
int Sum(const std::vector<int>& xs, int most) {
  int sum = kMost + 1;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i] > most && !Skipped(xs, Half(i))) continue;
    sum += std::min(xs[i], most);
    const auto less = [&](int x) { return x < sum; };
    Note(less(most), sum);
  }
  return sum;
}
'''


class Together(unittest.TestCase):
    def edit(self, was, becomes, number=1):
        at = WRAPPED.index(was)
        begin, end, text = together.changed_span(was, becomes)
        return together.Places(WRAPPED, False).edit(number, at + begin, at + end, text)

    def test_a_change_is_a_branch_around_what_it_lies_in(self):
        for was, becomes, expected in (
                ('sum += std::min', 'sum -= std::min',
                 '{ if (RONDO_MUTANT(1)) { sum -= std::min(xs[i], most); } else { sum += std::min(xs[i], most); } }'),
                ('Note(less(most), sum);', '{}', '{ if (RONDO_MUTANT(1)) { {} } else { Note(less(most), sum); } }'),
                ('continue;', '{}', '{ if (RONDO_MUTANT(1)) { {} } else { continue; } }'),
                ('x < sum', 'x <= sum', '{ if (RONDO_MUTANT(1)) { return x <= sum; } else { return x < sum; } }'),
                ('i < xs.size()', 'i > xs.size()', '(RONDO_MUTANT(1) ? (i > xs.size()) : (i < xs.size()))'),
                ('if (xs[i] > most', 'if (xs[i + 1] > most',
                 '(RONDO_MUTANT(1) ? (xs[i + 1] > most && !Skipped(xs, Half(i))) : (xs[i] > most && !Skipped(xs, Half(i))))'),
                ('kMost + 1', 'kMost - 1', '(RONDO_MUTANT(1) ? (kMost - 1) : (kMost + 1))'),
                ('x / 2', 'x / 3', '{ if (RONDO_RUNNING_MUTANT(1)) { return x / 3; } else { return x / 2; } }')):
            self.assertEqual(self.edit(was, becomes).text, expected)

    def test_a_constant_is_left_alone(self):
        self.assertIsNone(self.edit('kMost = 7', 'kMost = 8'))

    def test_changes_that_overlap_are_left_for_later(self):
        edits = [self.edit('sum += std::min', 'sum -= std::min', 1), self.edit('std::min', 'std::max', 2),
                 self.edit('x < sum', 'x > sum', 3)]
        text, lines = together.put_together(WRAPPED, edits)
        self.assertEqual(lines, {1: (8, 8), 3: (9, 9)})
        self.assertEqual(text.count('RONDO_MUTANT'), 2)
        self.assertTrue(text.startswith(together.INCLUDE))
        self.assertIn('RONDO_MUTANT(3)', text.split('\n')[8])

    def test_errors_are_told_by_their_places(self):
        output = 'In file included from a.cc:1:\n../../core/b.cc:12:3: error: no\n../../core/b.cc:14:9: note: here\n'
        self.assertEqual(together.places_of_errors(output), [('../../core/b.cc', 12)])

    def test_each_is_tried_by_its_number(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, 'core'))
            place = FakePlace(folder, [])
            place.write('core/count.cc', CODE)
            lines = [l for l in CODE.split('\n') if 'return ' in l]
            drawn = [records.Change('core/count.cc', 1, 'operator', line, line.replace(was, becomes)) for line, was, becomes in
                     ((lines[0], '>', '<'), (lines[1], '-', '+'))]
            place.finds = {2}
            kept = records.Results(folder, 'core', 1)
            args = types.SimpleNamespace(own=True, tests=['near', 'far'])
            self.assertTrue(mutate.try_together(place, drawn, args, kept, lambda text: None))
            self.assertEqual([(kept.get(change).outcome, kept.get(change).by) for change in drawn],
                             [('survived', ''), ('found', 'near')])
            self.assertEqual(place.ran, ['near', 'near', 'far'])
            self.assertEqual(place.text, CODE)


class FakePlace:
    """A tree of one file whose test fails if a change is among `found`, and hangs or survives otherwise."""

    def __init__(self, folder, found, not_compiled=()):
        self.tree, self.found, self.not_compiled, self.ran = folder, found, not_compiled, []
        self.text, self.built, self.has_not, self.chosen, self.finds = CODE, [], set(), 0, set()

    def tests_of(self, labels, without=()):
        return [name for name in labels or ['rest'] if name not in without]

    def quickest_first(self, names):
        return names

    def unmeasured(self, names):
        return []

    def measure(self, names):
        return True

    def has_file(self, name, path):
        return name not in self.has_not

    def build(self, names):
        self.built += names
        if self.has_not & set(names):
            return 'nothing to do'
        return 'failed' if any(line in self.text for line in self.not_compiled) else 'built'

    def first_failure(self, names):
        self.ran += names
        if self.chosen:
            return names[0] if self.chosen in self.finds else ''
        return next((names[0] for line in self.found if line in self.text), '')

    def write(self, path, text):
        self.text = text
        with open(os.path.join(self.tree, path), 'w') as file:
            file.write(text)


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.makedirs(os.path.join(self.folder.name, 'core'))
        self.place = FakePlace(self.folder.name, ['found -= ', 'int found = 1'], ['Swap(last'])
        self.place.write('core/count.cc', CODE)

    def change(self, was, becomes):
        line = next(l for l in CODE.split('\n') if was in l)
        return records.Change('core/count.cc', CODE.split('\n').index(line) + 1, 'operator', line, line.replace(was, becomes))

    def run_all(self, drawn, **options):
        args = types.SimpleNamespace(**{'count': len(drawn), 'own': True, 'tests': None, 'again': False,
                                        'together': False, **options})
        said = io.StringIO()
        kept = records.Results(self.folder.name, 'core', 1)
        listed = os.path.join(self.folder.name, 'equivalent.txt')
        with contextlib.redirect_stdout(said):
            totals = mutate.run(self.place, drawn, args, kept, records.Equivalents(listed), print)
        return totals, said.getvalue()

    def test_counts_and_names_what_survives(self):
        drawn = [self.change('found += ', 'found -= '), self.change('last - found', 'last + found'),
                 self.change('Swap(first, last)', 'Swap(last, first)')]
        totals, said = self.run_all(drawn)
        self.assertEqual((totals.tried, totals.found, totals.not_compiled), (2, 1, 1))
        self.assertIn('core/count.cc:18 operator: survived', said)
        self.assertIn('-  return last - found;\n+  return last + found;', said)
        self.assertIn('2 changes, 1 found, 1 survived, 50 %', totals.text('core', 1))
        self.assertEqual(self.place.text, CODE)

    def test_goes_on_where_it_ended_and_tries_survivors_again(self):
        drawn = [self.change('found += ', 'found -= '), self.change('last - found', 'last + found')]
        self.run_all(drawn)
        self.place.ran.clear()
        self.run_all(drawn)
        self.assertEqual(self.place.ran, [])
        self.place.found.append('last + found')
        totals, _ = self.run_all(drawn, again=True)
        self.assertEqual(self.place.ran, ['core'])
        self.assertEqual((totals.found, totals.found_at_first), (2, 1))

    def test_runs_the_rest_for_what_survives_its_own(self):
        totals, _ = self.run_all([self.change('last - found', 'last + found')], own=False)
        self.assertEqual(self.place.ran, areas.own_labels('core/count.cc') + ['rest'])
        self.assertEqual(len(totals.survivors), 1)

    def test_builds_no_more_than_finds_a_change(self):
        self.run_all([self.change('found += ', 'found -= ')], own=False)
        self.assertEqual(self.place.built, ['core'])

    def test_runs_no_test_that_does_not_have_the_file(self):
        first, *others = areas.own_labels('core/count.cc')
        self.place.has_not = {first}
        self.run_all([self.change('last - found', 'last + found')])
        self.assertEqual(self.place.ran, others)
        self.place.has_not.update(others)
        totals, said = self.run_all([self.change('found += ', 'found -= ')])
        self.assertEqual((totals.tried, totals.not_compiled), (0, 1))
        self.assertIn('core/count.cc:11: no test has this file', said)

    def test_skips_equivalent_ones(self):
        with open(os.path.join(self.folder.name, 'equivalent.txt'), 'w') as file:
            file.write('# a comment\ncore/count.cc\n- return last - found;\n+ return last + found;\nwhy: it is always\n0\n')
        drawn = [self.change('last - found', 'last + found'), self.change('found += ', 'found -= ')]
        totals, _ = self.run_all(drawn)
        self.assertEqual((totals.tried, totals.equivalent), (1, 1))

    def test_draws_the_same_for_a_seed(self):
        one, two = (mutate.draw(mutate.SOURCE, 'compiler/memory', seed, 30)[0] for seed in (3, 3))
        other, _ = mutate.draw(mutate.SOURCE, 'compiler/memory', 4, 30)
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)
        for change in one:
            text = workplace.read(mutate.SOURCE, change.path)
            self.assertNotEqual(mutate.locate(text, change), text)


class EndsTests(unittest.TestCase):
    def test_that_hang_and_all_that_they_started(self):
        place = workplace.Workplace('.', tempfile.gettempdir(), 1, print)
        status, _ = place._run(['sh', '-c', 'sleep 60 & sleep 60'], 0.2, dict(os.environ))
        self.assertIsNone(status)
        status, _ = place._run(['sh', '-c', 'while :; do :; done'], 60, dict(os.environ), 1)
        self.assertNotIn(status, (0, None))


if __name__ == '__main__':
    unittest.main()
