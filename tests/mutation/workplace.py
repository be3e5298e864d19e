"""A copy of the tree with its own build folder, in which changes are made, built and tested."""
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

NOT_BY_DEFAULT = {'long', 'gpu'}
BUILD_LIMIT_S = 1800
MEMORY_LIMIT = 12 << 30  # address space for each test, because a change may allocate without end


def read(tree, path):
    with open(os.path.join(tree, path), encoding='utf-8', newline='') as file:
        return file.read()


class Workplace:
    def __init__(self, source, work, jobs, say):
        self.source, self.work, self.jobs, self.say = source, os.path.abspath(work), jobs, say
        self.tree = os.path.join(self.work, 'tree')
        self.build_folder = os.path.join(self.tree, 'build', 'release')
        self.temporary = os.path.join(self.work, 'tmp')
        self.chosen = 0      # the number of the selected change
        self.errors = ''     # output of the last failed build
        self.tests = {}      # {name: labels, targets to build}
        self.seconds = {}    # {name: seconds in the unchanged tree; None if it fails}
        self.processor = {}  # {name: the same in CPU seconds}
        self.times = {}      # {name: both, with the digest of the program}
        self.compiled_of = {}  # {built object: files that it was compiled from}
        self.objects = {}      # {test: objects}
        self.times_file = os.path.join(self.work, 'times.json')

    def prepare(self):
        """Copies what is new in the source tree, and configures. Prints the error and returns False if that fails."""
        self._copy()
        configure = ['cmake', '--preset', 'release', '-DRONDO_PRECOMPILED_HEADERS=ON']
        if shutil.which('ccache'):
            configure.append('-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache')
        done = subprocess.run(configure, cwd=self.tree, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            self.say(done.stdout)
            return False
        listed = self._output(['ctest', '--test-dir', self.build_folder, '--show-only=json-v1'])
        targets = self._output(['cmake', '--build', self.build_folder, '--target', 'help'])
        self._list_tests(json.loads(listed), set(re.findall(r'^(\w+): phony', targets, re.M)))
        if os.path.exists(self.times_file):
            with open(self.times_file) as file:
                self.times = json.load(file)
        return True

    @staticmethod
    def _output(command):
        return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout

    def _copy(self):
        """Copies the files that git tracks or would add in their current state. Unchanged files keep their time."""
        listed = subprocess.run(['git', '-C', self.source, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                                stdout=subprocess.PIPE, check=True).stdout.decode().split('\0')
        names = sorted({n for n in listed if n and os.path.isfile(os.path.join(self.source, n))})
        digest = hashlib.sha256()
        for name in names:
            with open(os.path.join(self.source, name), 'rb') as file:
                data = file.read()
            digest.update(name.encode() + b'\0' + hashlib.sha256(data).digest())
            to = os.path.join(self.tree, name)
            if os.path.isfile(to):
                with open(to, 'rb') as file:
                    if file.read() == data:
                        continue
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.join(self.source, name), to)
            os.utime(to)  # newer than objects built from the old file
        for at, folders, files in os.walk(self.tree):
            folders[:] = [f for f in folders if not (at == self.tree and f in ('build', '.git'))]
            for name in files:
                if os.path.relpath(os.path.join(at, name), self.tree) not in set(names):
                    os.remove(os.path.join(at, name))
        self.digest = digest.hexdigest()

    def _list_tests(self, listed, targets):
        built = re.compile(re.escape(self.build_folder + os.sep) + r'((?:bin|lib)/[\w.+-]+)')
        for test in listed['tests']:
            labels = next((set(p['value']) for p in test['properties'] if p['name'] == 'LABELS'), set())
            if labels & NOT_BY_DEFAULT:
                continue
            command = test.get('command', [])
            # ctest does not give the command of a program that is not built yet.
            programs = [match[1] for match in map(built.fullmatch, command) if match]
            if not command:
                programs = ['bin/' + test['name'] if test['name'] in targets else 'all']
            self.tests[test['name']] = (labels, programs)
            # A test without a label belongs to the folder of its script or of its build folder.
            folder = re.search(r'/tests/(\w+)/', ' '.join(command))
            if not labels and folder:
                labels.add(folder[1])

    def tests_of(self, labels, without=()):
        """Names of the tests with these labels or names in this order, for each label the fastest first. None means all tests."""
        if labels is None:
            return self.quickest_first(set(self.tests) - set(without))
        names = []
        for label in labels:
            names += self.quickest_first(
                n for n in self.tests if label in self.tests[n][0] | {n} and n not in [*names, *without])
        return names

    def quickest_first(self, names):
        return sorted(names, key=lambda n: (self.seconds.get(n) or 0, n))

    def has_file(self, name, path):
        """Whether the test's objects were compiled from the file."""
        if not all(p.startswith('bin/') for p in self.tests[name][1] or ['all']):
            return True
        if not self.compiled_of:
            of = None
            for line in self._output(['ninja', '-C', self.build_folder, '-t', 'deps']).split('\n'):
                if line.startswith(' '):
                    self.compiled_of[of].add(os.path.normpath(os.path.join(self.build_folder, line.strip())))
                elif ': ' in line:
                    of = line.split(': ')[0]
                    self.compiled_of[of] = set()
        if name not in self.objects:
            commands = self._output(['ninja', '-C', self.build_folder, '-t', 'commands', *self.tests[name][1]])
            self.objects[name] = re.findall(r' -o (\S+\.o) -c ', commands)
        return any(os.path.join(self.tree, path) in self.compiled_of.get(o, ()) for o in self.objects[name])

    def write(self, path, text):
        if read(self.tree, path) == text:
            return  # the file keeps its time, so that nothing is rebuilt
        with open(os.path.join(self.tree, path), 'w', encoding='utf-8', newline='') as file:
            file.write(text)

    def build(self, names, keep=False):
        """Builds the programs of these tests. Returns 'built', 'nothing to do' or 'failed'. Objects of changed code are not kept in the
        compiler's cache."""
        targets = sorted({t for n in names for t in self.tests[n][1] or ['all']})
        # With a base folder the cache also finds objects that another checkout has compiled.
        environment = dict(os.environ, CCACHE_BASEDIR=self.tree, CCACHE_NOHASHDIR='1')
        if not keep:
            environment['CCACHE_READONLY'] = '1'
        command = ['cmake', '--build', self.build_folder, '-j', str(self.jobs), '--target', *targets]
        self.compiled_of.clear()
        status, output = self._run(command, BUILD_LIMIT_S, environment)
        if status != 0:
            self.errors = output
            if keep:
                self.say(output)
            return 'failed'
        return 'nothing to do' if 'ninja: no work to do.' in output else 'built'

    def _run(self, command, limit, environment, processor=None):
        """Returns (exit status, output); the status is None if `limit` seconds passed. `processor`: CPU seconds for each process; with it
        the memory limit applies. Ends all processes that the command started."""
        def start():
            os.setsid()
            if processor:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
                resource.setrlimit(resource.RLIMIT_CPU, (processor, processor))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                                   preexec_fn=start, text=True, errors='replace')
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ''
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()

    def _test(self, name, limit, processor, cases=''):
        """Returns ((seconds, CPU seconds), or None if it fails or does not end; the failed GoogleTest cases). Ends at the first failure.
        `cases`: runs only these."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        os.makedirs(self.temporary)
        environment = dict(os.environ, TMPDIR=self.temporary, GTEST_FAIL_FAST='1', RONDO_MUTANT=str(self.chosen),
                           **({'GTEST_FILTER': cases} if cases else {}))
        command = ['ctest', '--output-on-failure', '--test-dir', self.build_folder, '-R', f'^{re.escape(name)}$',
                   '-LE', '^(long|gpu)$', '--timeout', str(int(limit) + 5)]
        started, computed = time.monotonic(), self._computed()
        status, output = self._run(command, limit, environment, processor)
        failed = sorted(set(re.findall(r'^(?:\d+: )?\[  FAILED  \] ([\w/]+\.[\w/]+)', output, re.M)))
        spent = (time.monotonic() - started, self._computed() - computed)
        return (spent if status == 0 else None), ':'.join(failed)

    @staticmethod
    def _computed():
        """CPU seconds that this process's children have used."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def _stamp(self, name):
        """A digest of the test's programs; for a test without one, of all files of the tree."""
        digest = hashlib.sha256()
        for program in self.tests[name][1] or ['']:
            path = os.path.join(self.build_folder, program)
            if program and os.path.isfile(path):
                with open(path, 'rb') as file:
                    digest.update(file.read())
            else:
                digest.update(self.digest.encode())
        return digest.hexdigest()

    def unmeasured(self, names):
        return [n for n in names if n not in self.seconds]

    def measure(self, names):
        """Builds the unchanged tree and measures how long these tests take. False if it does not build."""
        new = self.unmeasured(names)
        if not new:
            return True
        if self.build(new, keep=True) == 'failed':
            return False
        for name in new:
            stamp = self._stamp(name)
            if self.times.get(name, [''])[0] != stamp:
                self.say(f'unchanged tree: {name}')
                self.times[name] = [stamp, *(self._test(name, 900, 900)[0] or (None, None))]
                with open(self.times_file, 'w') as file:
                    json.dump(self.times, file)
            self.seconds[name], self.processor[name] = self.times[name][1:]
            if self.seconds[name] is None:
                self.say(f'{name} fails without a change: left out')
        return True

    def first_failure(self, names):
        """The first of these tests that fails twice, or takes many times its usual time; otherwise ''."""
        for name in names:
            usual = self.seconds.get(name)
            if usual is None:
                continue
            # On a busy machine a test takes longer, but hardly more CPU time.
            started = time.monotonic()
            limits = 60 + 20 * usual, int(10 + 3 * self.processor[name])
            spent, cases = self._test(name, *limits)
            if spent is not None:
                continue
            if time.monotonic() - started >= min(limits) and not cases:
                return f'{name} (may not end)'
            if self._test(name, *limits, cases)[0] is None:
                return f'{name} ({cases})' if cases else name
        return ''
