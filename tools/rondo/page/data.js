// The plan in the page's form (plan_page.cc defines each place), and values derived from it.
'use strict';

const plan = JSON.parse(document.getElementById('plan').textContent);

const bytesText = (bytes) => {
  if (bytes < 10000) return bytes + ' B';
  let unit = -1;
  do { bytes /= 1024; ++unit; } while (bytes >= 1024 && unit < 3);
  return bytes.toFixed(bytes < 10 ? 2 : bytes < 100 ? 1 : 0) + ' ' + ['KiB', 'MiB', 'GiB', 'TiB'][unit];
};

// Names come from untrusted files.
const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => '&#' + c.charCodeAt(0) + ';');

const stepClass = {launch: 's-launch', copy: 's-copy', 'collective start': 's-collective',
                   'collective wait': 's-wait', custom: 's-custom'};

// The buffers of one program and device that are in its arena and alive at some step.
const arenaBuffers = (program, device) => plan.buffers.filter(
    (b) => b.program === program && b.device === device && b.first <= b.last && b.bytes > 0);

const storageOf = (buffer) => {
  for (let hops = 0; buffer.alias >= 0 && hops < 64; ++hops) buffer = plan.buffers[buffer.alias];
  return buffer.index;
};

// Bytes alive at each step, and the step with the most. Buffers that share one place count once. Bytes are rounded up to
// the alignment, as in the arena's lower bound.
const liveBytes = (buffers, steps) => {
  const storages = new Map();
  for (const b of buffers) {
    const storage = storageOf(b), own = storages.get(storage) || [];
    own.push(b);
    storages.set(storage, own);
  }
  const change = new Float64Array(steps + 1);
  for (const own of storages.values()) {
    own.sort((a, b) => a.first - b.first);
    let end = -1;  // of what was counted
    for (const b of own) {
      const from = Math.max(b.first, end + 1), bytes = Math.ceil(b.bytes / b.alignment) * b.alignment;
      if (b.last < from) continue;
      change[from] += bytes;
      change[Math.min(b.last + 1, steps)] -= bytes;
      end = b.last;
    }
  }
  let sum = 0, peak = 0;
  const live = new Float64Array(Math.max(1, steps));
  for (let s = 0; s < steps; ++s) {
    sum += change[s];
    live[s] = sum;
    if (sum > live[peak]) peak = s;
  }
  return {live, peak};
};

// from[s]: steps whose results step s reads; to[s]: steps that read the results of step s.
const edgesOf = (program) => {
  const steps = program.steps, writer = new Map();
  const from = steps.map(() => []), to = steps.map(() => []);
  steps.forEach((step, s) => {
    for (const b of step.reads) {
      const w = writer.get(storageOf(plan.buffers[b]));
      if (w === undefined || w === s || from[s].includes(w)) continue;
      from[s].push(w);
      to[w].push(s);
    }
    for (const b of step.writes) writer.set(storageOf(plan.buffers[b]), s);
  });
  return {from, to};
};

plan.buffers.forEach((b, index) => { b.index = index; });
