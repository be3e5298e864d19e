"""The drawn changes, their results, and the changes known to be equivalent, in files that people can read."""
import json
import os
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Change:
    """Lines of a file, from `line` on, and their replacement."""
    path: str
    line: int
    kind: str
    was: str
    becomes: str

    def key(self):
        squeeze = lambda text: ' '.join(text.split())
        return self.path, squeeze(self.was), squeeze(self.becomes)


@dataclass
class Outcome:
    first: str    # the first result: found, survived, not compiled
    outcome: str  # the last result
    by: str       # the test that found it


class Results:
    """The records of one area and seed in `folder`: the draw, and a line for each tried change. An interrupted run continues after its
    last line."""

    def __init__(self, folder, area, seed):
        self.folder = folder
        name = f'{area.replace("/", "-")}-{seed}'
        self.draw_file = os.path.join(folder, f'{name}.draw.json')
        self.results_file = os.path.join(folder, f'{name}.results.jsonl')
        self.by_key = {}
        for line in self._lines(self.results_file):
            entry = json.loads(line)
            self._note(Change(**entry['change']), entry['outcome'], entry['by'])

    @staticmethod
    def _lines(path):
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [line for line in file if line.endswith('\n')]

    def _note(self, change, outcome, by):
        before = self.by_key.get(change.key())
        self.by_key[change.key()] = Outcome(before.first if before else outcome, outcome, by)

    def drawn(self):
        return [Change(**json.loads(line)) for line in self._lines(self.draw_file)]

    def keep_draw(self, drawn):
        os.makedirs(self.folder, exist_ok=True)
        with open(self.draw_file, 'w') as file:
            file.writelines(json.dumps(asdict(change)) + '\n' for change in drawn)

    def get(self, change):
        return self.by_key.get(change.key())

    def add(self, change, outcome, by):
        self._note(change, outcome, by)
        with open(self.results_file, 'a') as file:
            file.write(json.dumps({'change': asdict(change), 'outcome': outcome, 'by': by}) + '\n')


class Equivalents:
    """Reads a file's entries, which empty lines separate: the path, old lines after "- ", new lines after "+ ", and "why: " with the
    reason, which may continue on further lines. White space does not count. "#" begins a comment."""

    def __init__(self, path):
        self.reasons = {}
        if not os.path.exists(path):
            return
        with open(path) as file:
            text = ''.join(line for line in file if not line.startswith('#'))
        for number, entry in enumerate(filter(str.strip, text.split('\n\n')), 1):
            lines = entry.strip('\n').split('\n')
            was = ' '.join(line[2:] for line in lines[1:] if line.startswith('- '))
            becomes = ' '.join(line[2:] for line in lines[1:] if line.startswith('+ '))
            why = ' '.join(line for line in lines[1:] if not line.startswith(('- ', '+ ')))
            if not was or not becomes or not why.startswith('why: '):
                raise SystemExit(f'mutate: {path}: entry {number} ("{lines[0]}") needs lines with "- ", "+ " and "why: "')
            self.reasons[Change(lines[0].strip(), 0, '', was, becomes).key()] = why[len('why: '):]

    def reason(self, change):
        return self.reasons.get(change.key())
