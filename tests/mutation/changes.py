"""Finds the places of C++ code where one token can be changed, and the possible changes.

A place (Site) is in code that runs: never in comments, strings, preprocessor lines, static_assert, template parameters,
attributes or, in headers, outside function bodies. This reads tokens, not C++: a change may fail to compile, and the
caller then draws another.
"""
import bisect
import re
from dataclasses import dataclass

# Larger literals are sizes and budgets: a change by one is no fault.
MOST_CONSTANT = 255

TOKEN = re.compile(
    r'''(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
      | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
                  |(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.]|'(?=\w))*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<op><=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|&&|\|\||<<|[-+*/%&|^=!<>]=|[^\s\w])''',
    re.X | re.S | re.M)

# Binary operators, which have white space on both sides, and their replacements.
OPERATORS = {'<': ['<=', '>'], '<=': ['<', '>='], '>': ['>=', '<'], '>=': ['>', '<='], '==': ['!='], '!=': ['=='],
             '+': ['-'], '-': ['+'], '+=': ['-='], '-=': ['+='], '*': ['/'], '/': ['*'], '%': ['/'],
             '&&': ['||'], '||': ['&&'], '&': ['|'], '|': ['&'], '&=': ['|='], '|=': ['&=']}
OTHER_OPERATORS = {'++': '--', '--': '++'}
WORDS = {'min': 'max', 'max': 'min', 'min_element': 'max_element', 'max_element': 'min_element',
         'lower_bound': 'upper_bound', 'upper_bound': 'lower_bound', 'front': 'back', 'back': 'front',
         'all_of': 'any_of', 'any_of': 'all_of', 'none_of': 'any_of', 'true': 'false', 'false': 'true'}
COMMUTE = {'min', 'max', 'swap', 'gcd', 'lcm', 'minmax'}
KEYWORDS = {'if', 'for', 'while', 'switch', 'return', 'case', 'sizeof', 'alignof', 'catch', 'decltype', 'do', 'else',
            'new', 'delete', 'throw', 'using', 'typedef', 'constexpr', 'const', 'auto', 'static', 'struct', 'class',
            'enum', 'union', 'namespace', 'template', 'default', 'goto', 'break', 'continue', 'public', 'private',
            'protected', 'friend', 'operator', 'extern', 'inline', 'co_return'}
SCOPES = {'namespace', 'struct', 'class', 'union', 'enum'}
CLOSING = {'(': ')', '[': ']', '{': '}'}
SIMPLE = re.compile(r'^[*&!-]?[\w:]+(?:(?:\.|->|::)\w+|\[\w+\]|\(\))*$')


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int

    @property
    def end(self):
        return self.at + len(self.text)


@dataclass(frozen=True)
class Site:
    """A place in a file: its text range [at, end), its kind, and its possible replacements."""
    kind: str
    at: int
    end: int
    becomes: tuple


class Source:
    """One file's code as tokens, with each bracket's partner and whether a token is in a function's body."""

    def __init__(self, text, is_header):
        self.text = text
        self.is_header = is_header
        self.tokens = [Token(m.lastgroup if m.lastgroup != 'mark' else 'string', m.group(), m.start())
                       for m in TOKEN.finditer(text) if m.lastgroup not in ('comment', 'directive')]
        self.partner = self._brackets()
        self.around = self._enclosing()
        self.body = [False] * len(self.tokens)
        self.left_out = [False] * len(self.tokens)
        self._mark_bodies()
        self._mark_left_out()

    def is_at(self, i, *texts):
        return 0 <= i < len(self.tokens) and self.tokens[i].text in texts

    def _brackets(self):
        partner, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind == 'op' and token.text in CLOSING:
                stack.append(i)
            elif token.kind == 'op' and token.text in ')]}':
                while stack and CLOSING[self.tokens[stack[-1]].text] != token.text:
                    stack.pop()
                if stack:
                    partner[i] = stack.pop()
                    partner[partner[i]] = i
        return partner

    def _enclosing(self):
        """For each token, the innermost open bracket; -1: none."""
        around, stack = [], []
        for i in range(len(self.tokens)):
            while stack and self.partner[stack[-1]] <= i:
                stack.pop()
            around.append(stack[-1] if stack else -1)
            if self.partner.get(i, -1) > i:
                stack.append(i)
        return around

    def _mark_bodies(self):
        """Whether a brace begins a function's body: the text since the last statement has parentheses and defines no type."""
        inside, head = [], []
        for i, token in enumerate(self.tokens):
            self.body[i] = bool(inside) and inside[-1]
            if token.text == '{' and token.kind == 'op':
                scope = ')' not in head[-1:] and not SCOPES.isdisjoint(head)
                outer = bool(inside) and inside[-1]
                inside.append(outer or (not scope and '(' in head))
                head = []
            elif token.text == '}' and token.kind == 'op':
                if inside:
                    inside.pop()
                head = []
            elif token.text == ';':
                head = []
            else:
                head.append(token.text)

    def _leave_out(self, first, last):
        for i in range(first, last + 1):
            self.left_out[i] = True

    def _mark_left_out(self):
        for i, token in enumerate(self.tokens):
            if token.text == 'static_assert' and i + 1 in self.partner:
                self._leave_out(i, self.partner[i + 1])
            elif token.text == 'template' and self.is_at(i + 1, '<'):
                depth, j = 0, i + 1
                while j < len(self.tokens):
                    depth += {'<': 1, '>': -1}.get(self.tokens[j].text, 0)
                    if depth == 0:
                        break
                    j += 1
                self._leave_out(i, min(j, len(self.tokens) - 1))
            elif token.text == '[' and self.is_at(i + 1, '[') and i in self.partner:
                self._leave_out(i, self.partner[i])
            elif token.text == 'operator':
                self._leave_out(i, min(i + 1, len(self.tokens) - 1))
            elif token.text == 'enum' and not self.is_at(i - 1, '<', ','):
                j = i
                while j < len(self.tokens) and self.tokens[j].text not in ('{', ';', ')'):
                    j += 1
                if j in self.partner and self.is_at(j, '{'):
                    self._leave_out(i, self.partner[j])

    def spaced(self, i):
        token = self.tokens[i]
        return self.text[token.at - 1:token.at].isspace() and self.text[token.end:token.end + 1].isspace()

    def slice(self, first, last):
        return self.text[self.tokens[first].at:self.tokens[last].end]

    # One function for each kind of change at token i. Each yields (kind, first token, last token, replacements).

    def operator(self, i):
        token = self.tokens[i]
        if token.text in OPERATORS and self.spaced(i):
            yield 'operator', i, i, OPERATORS[token.text]
        elif token.text in OTHER_OPERATORS:
            yield 'step', i, i, [OTHER_OPERATORS[token.text]]
        elif token.text == '!':
            yield 'negation', i, i, ['']

    def word(self, i):
        token = self.tokens[i]
        if token.kind == 'word' and token.text in WORDS:
            called = self.is_at(i + 1, '(')
            if token.text in ('true', 'false') or (called and self.is_at(i - 1, '::', '.', '->')):
                yield 'word', i, i, [WORDS[token.text]]

    def constant(self, i):
        token = self.tokens[i]
        whole = re.fullmatch(r"(\d+)([uUlLzZ]*)", token.text) if token.kind == 'number' else None
        real = re.fullmatch(r"(\d+)(\.\d*f?)", token.text) if token.kind == 'number' else None
        if whole and not (token.text.startswith('0') and len(whole[1]) > 1) and int(whole[1]) <= MOST_CONSTANT:
            less = [f'{int(whole[1]) - 1}{whole[2]}'] if int(whole[1]) > 0 else []
            yield 'constant', i, i, less + [f'{int(whole[1]) + 1}{whole[2]}']
        elif real and int(real[1]) <= MOST_CONSTANT:
            yield 'constant', i, i, [f'{int(real[1]) + 1}{real[2]}']

    def condition(self, i):
        if self.is_at(i, '(') and self.is_at(i - 1, 'if', 'while') and i in self.partner:
            last = self.partner[i]
            if last > i + 1:
                yield 'condition', i + 1, last - 1, [f'!({self.slice(i + 1, last - 1)})']

    def index(self, i):
        if not (self.is_at(i, '[') and i in self.partner and self.partner[i] > i + 1):
            return
        before = self.tokens[i - 1] if i else None
        indexed = before and (before.text in (']', ')') or (before.kind == 'word' and before.text not in KEYWORDS))
        declares = before and before.kind == 'word' and i > 1 and (
            self.tokens[i - 2].kind == 'word' and self.tokens[i - 2].text not in ('return', 'case', 'else'))
        last = self.partner[i]
        lone_number = last == i + 2 and self.tokens[i + 1].kind == 'number'  # the number is a constant by itself
        if indexed and not declares and not lone_number:
            inner = self.slice(i + 1, last - 1)
            yield 'index', i + 1, last - 1, [f'{inner} + 1', f'{inner} - 1']

    def arguments(self, i):
        """Swaps two neighbouring arguments of a call or values of a braced list."""
        if not (self.is_at(i, '(', '{') and i in self.partner and i > 0):
            return
        before, last = self.tokens[i - 1], self.partner[i]
        if self.is_at(i, '(') and (before.kind != 'word' or before.text in KEYWORDS or before.text in COMMUTE):
            return
        if self.is_at(last + 1, '{', 'const', 'override', 'noexcept', '->') or last == i + 1:
            return
        parts, begin, j = [], i + 1, i + 1
        while j <= last:
            if j == last or self.is_at(j, ','):
                if begin < j:
                    parts.append((begin, j - 1))
                begin = j + 1
            elif j in self.partner and self.partner[j] > j:
                j = self.partner[j]
            j += 1
        for (a, b), (c, d) in zip(parts, parts[1:]):
            one, two = self.slice(a, b), self.slice(c, d)
            if one != two and self._alike(one, two):
                yield 'arguments', a, d, [two + self.text[self.tokens[b].end:self.tokens[c].at] + one]

    def _alike(self, one, two):
        """Whether two arguments could have the same type: both are names, or both numbers."""
        kinds = [(text[0].isdigit(), text.lstrip('*&!-')[:1].isupper(), text.startswith('k') and text[1:2].isupper(),
                  text.startswith(('std::', 'nullptr', 'true', 'false')), text.startswith('&')) for text in (one, two)]
        return SIMPLE.match(one) and SIMPLE.match(two) and kinds[0] == kinds[1]

    def _is_early(self, i):
        """Whether a jump at token i depends on a condition."""
        return self.is_at(i - 1, 'else') or self._after_condition(i) or (
            self.around[i] > 0 and (self.is_at(self.around[i] - 1, 'else') or self._after_condition(self.around[i])))

    def statement(self, i):
        """Removes an early jump, or a call or assignment that is a whole statement."""
        if not self.body[i] or not (self.is_at(i - 1, ';', '{', '}', 'else') or self._after_condition(i)):
            return
        if not self.is_at(self.around[i], '{') or self.is_at(self.around[i] - 1, '=', ',', '(', 'return'):
            return
        token, j = self.tokens[i], i
        jump = token.text in ('return', 'continue', 'break')
        if jump and not self._is_early(i):
            return
        if not jump and not self.is_at(j, '*', '++', '--', '('):
            if token.kind != 'word' or token.text in KEYWORDS:
                return
            elif self.is_at(i + 1, '<') or (i + 1 < len(self.tokens) and self.tokens[i + 1].kind == 'word'):
                return
        while j < len(self.tokens) and not self.is_at(j, ';'):
            if self.is_at(j, '}', ')', ']'):
                return
            if not jump and j > i and self.tokens[j].kind == 'word' and self.tokens[j - 1].kind == 'word':
                return  # a declaration
            if not jump and self.tokens[j].text in ('*', '&') and not self.spaced(j) and j > i and \
                    self.tokens[j - 1].kind == 'word' and self.tokens[j + 1].kind == 'word' and self.text[self.tokens[j].end] == ' ':
                return  # also a declaration: T* name
            j = self.partner[j] + 1 if j in self.partner and self.partner[j] > j else j + 1
        if j < len(self.tokens) and self.slice(i, j).count('\n') <= 4:
            yield 'statement', i, j, ['{}']

    def _after_condition(self, i):
        """Whether token i follows the parentheses of an if, for or while."""
        if not (self.is_at(i - 1, ')') and i - 1 in self.partner):
            return False
        opened = self.partner[i - 1]
        return self.is_at(opened - 1, 'if', 'for', 'while') or (
            self.is_at(opened - 1, 'constexpr') and self.is_at(opened - 2, 'if'))

    def sites(self):
        """All sites in the order of the file."""
        found = []
        kinds = (self.operator, self.word, self.constant, self.condition, self.index, self.arguments, self.statement)
        for i in range(len(self.tokens)):
            if self.left_out[i] or (self.is_header and not self.body[i]):
                continue
            for kind in kinds:
                for name, first, last, texts in kind(i):
                    if any(self.left_out[first:last + 1]):
                        continue
                    found.append(Site(name, self.tokens[first].at, self.tokens[last].end, tuple(texts)))
        return found


def find_sites(text, is_header=False):
    return Source(text, is_header).sites()


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def lines_changed(text, at, end, becomes):
    """Returns (number of the first line, the old lines, the new lines), without lines that stay the same."""
    starts = [0] + [m.end() for m in re.finditer('\n', text)]
    first = bisect.bisect_right(starts, at) - 1
    begin = starts[first]
    stop = text.find('\n', end)
    stop = len(text) if stop < 0 else stop
    return first + 1, text[begin:stop], text[begin:at] + becomes + text[end:stop]
