"""Puts many changes into one tree. An environment variable selects one of them at run time, so that compiling and linking, which take
most of the time, happen once. A change becomes a branch around its statement or expression:

    total += count;        { if (RONDO_MUTANT(7)) { total -= count; } else { total += count; } }
    if (i < last)          if ((RONDO_MUTANT(8) ? (i <= last) : (i < last)))

If that does not compile (in constants, in types), the change is tried on its own.
"""
import re
from dataclasses import dataclass

import changes

BLOCK_AFTER = {')', ']', 'else', 'do', 'try', 'const', 'noexcept', 'override', 'mutable', ';', '{', '}'}
EXPRESSION_ENDS = {';', ',', '=', '+=', '-=', '*=', '/=', '&=', '|=', '?', ':', 'return', 'case'}
CONTROL = {'if', 'for', 'while', 'switch', 'do', 'else', 'case', 'default', 'using', 'struct', 'class', 'enum', 'static_assert'}
INCLUDE = '#include "tests/mutation/mutant.h"\n'


@dataclass
class Edit:
    number: int
    at: int
    end: int
    text: str


def changed_span(was, becomes):
    """Returns (begin, end of the difference in `was`, the text that replaces it)."""
    first = 0
    while first < min(len(was), len(becomes)) and was[first] == becomes[first]:
        first += 1
    last = 0
    while last < min(len(was), len(becomes)) - first and was[-1 - last] == becomes[-1 - last]:
        last += 1
    return first, len(was) - last, becomes[first:len(becomes) - last]


class Places:
    """Finds where changes of a file can be wrapped in branches."""

    def __init__(self, text, is_header):
        self.text = text
        self.source = changes.Source(text, is_header)
        self.tokens = self.source.tokens

    def _is_block(self, i):
        return self.source.is_at(i, '{') and (i == 0 or self.tokens[i - 1].text in BLOCK_AFTER)

    def _constant(self, i):
        """The kind of constexpr code around token i: 'function', 'value' or ''."""
        kind = 'value'
        while i >= 0:
            first = self._left(i, {';', '{', '}'})
            if any(self.source.is_at(j, 'constexpr') and not self.source.is_at(j - 1, 'if') for j in range(first, i)):
                return kind
            i = self.source.around[i]
            kind = 'function' if self._is_block(i) else kind
        return ''

    def _left(self, i, ends):
        """The first token after the nearest of `ends`, or after the enclosing bracket, before token i."""
        around = self.source.around[i]
        while True:
            i = min(i, self.source.partner.get(i, i))
            if i - 1 <= around or self.tokens[i - 1].text in ends:
                return i
            i -= 1

    def _right(self, i, ends):
        while True:
            i = max(i, self.source.partner.get(i, i))
            after = i + 1
            if after == len(self.tokens) or self.tokens[after].text in ends or self.source.partner.get(after, after) < after:
                return i
            i = after

    def _statement(self, i):
        """(first, last token) of the statement around token i; None for a declaration."""
        while i >= 0 and not self._is_block(self.source.around[i]):
            i = self.source.around[i]
        if i < 0:
            return None
        first = self._left(i, {';', '{', '}'})
        while self.tokens[first].text in ('if', 'for', 'while', 'else'):
            if self.source.is_at(first, 'else'):
                first += 1
                continue
            opened = first + 1 + self.source.is_at(first + 1, 'constexpr')
            if opened not in self.source.partner or self.source.partner[opened] >= i:
                return None  # in the condition of a control statement
            first = self.source.partner[opened] + 1
        last = self._right(i, {';'}) + 1
        if first > i or not self.source.is_at(last, ';') or self.tokens[first].text in CONTROL:
            return None
        if self.source.is_at(first, 'return', 'continue', 'break', '*', '++', '--', '('):
            return first, last
        j = first  # in a declaration a name follows a type
        while j < last and self.tokens[j].kind == 'word' and self.source.is_at(j + 1, '::', '.', '->'):
            j += 2
        plain = self.tokens[j].kind == 'word' and 'ASSIGN' not in self.tokens[j].text and self.source.is_at(
            j + 1, '(', '[', '=', '+=', '-=', '*=', '/=', '|=', '&=', '++', '--', '<<=', '>>=', '^=', '%=')
        return (first, last) if plain else None

    def _expression(self, first, last):
        """(first, last token) of the expression around these tokens; None if there is none."""
        around = self.source.around
        while around[first] != around[last] or any(
                self.source.is_at(j, ',') and around[j] == around[first] for j in range(first, last + 1)):
            if around[first] >= around[last]:
                first = around[first]
            if first < 0:
                return None
            if around[last] > around[first]:
                last = self.source.partner[around[last]]
            last = max(last, self.source.partner.get(first, last))
        # A called or indexed operand belongs to the expression.
        begin, end = self._left(first, EXPRESSION_ENDS), self._right(last, EXPRESSION_ENDS)
        return (begin, end) if begin <= first and end >= last else None

    def edit(self, number, at, end, becomes):
        """The edit for a change of text [at, end); None if the change must be tried alone."""
        inside = [i for i, t in enumerate(self.tokens) if (t.at <= at <= t.end if at == end else t.at < end and t.end > at)]
        constant = self._constant(inside[0]) if inside else 'value'
        if constant == 'value':
            return None
        chosen = f'{"RONDO_RUNNING_MUTANT" if constant else "RONDO_MUTANT"}({number})'
        first, last = inside[0], inside[-1] - (len(inside) > 1 and self.source.is_at(inside[-1], ';'))
        make = lambda a, b: self.text[self.tokens[a].at:at] + becomes + self.text[end:self.tokens[b].end]
        unit = self._statement(first)
        if unit and self._statement(last) == unit:
            a, b = self.tokens[unit[0]].at, self.tokens[unit[1]].end
            text = f'{{ if ({chosen}) {{ {make(*unit)} }} else {{ {self.text[a:b]} }} }}'
            return Edit(number, a, b, text)
        unit = self._expression(first, last)
        if unit is None:
            return None
        a, b = self.tokens[unit[0]].at, self.tokens[unit[1]].end
        if not a <= at <= end <= b:
            return None
        return Edit(number, a, b, f'({chosen} ? ({make(*unit)}) : ({self.text[a:b]}))')


def put_together(text, edits):
    """Returns the text with all edits that do not overlap an earlier one, and {number: (first, last line)} of these."""
    taken = []
    for edit in edits:
        if all(edit.end <= other.at or other.end <= edit.at for other in taken):
            taken.append(edit)
    out, at, lines = INCLUDE, 0, {}
    for edit in sorted(taken, key=lambda e: e.at):
        out += text[at:edit.at]
        first = out.count('\n') + 1
        out += edit.text
        lines[edit.number] = first, out.count('\n') + 1
        at = edit.end
    return out + text[at:], lines


def places_of_errors(output):
    """(path, line) of each error that a compiler printed."""
    return [(path, int(line)) for path, line in re.findall(r'^(\S+?):(\d+):(?:\d+:)? (?:fatal )?error', output, re.M)]
