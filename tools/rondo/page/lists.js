// The texts: tips, details of the selection, the largest buffers, and the list of steps.
'use strict';

const stepName = (step) => step.what + (step.label ? ' (' + step.label + ')' : '');

const bufferLine = (b) => '<b>' + escaped(b.name || 'buffer #' + b.index) + '</b> ' + escaped(b.type) + ', ' + escaped(b.kind) + ', ' +
    bytesText(b.bytes) + (b.first <= b.last ? ' at ' + b.offset + ', alive from step ' + b.first + ' to ' + b.last : '') +
    (b.alias >= 0 ? ', in place of ' + escaped(plan.buffers[b.alias].name || '#' + b.alias) : '') +
    (b.source ? '<br>from ' + escaped(b.source) : '');

const stepLine = (step, s) => '<b>step ' + s + ': ' + escaped(stepName(step)) + '</b>, device ' + step.device + ', stream ' + step.stream +
    ', reads ' + bytesText(step.read) + ', writes ' + bytesText(step.written) +
    ', ' + microseconds(step.end - step.begin) + ' from ' + microseconds(step.begin) + ' on by estimate' + (step.source ? '<br>from ' + escaped(step.source) : '');

const partitionLine = (p, i) => '<b>partition ' + i + '</b>, device ' + p.device + ', steps ' + p.first + ' to ' + (p.first + p.steps - 1) +
    '; ends because of ' + escaped(p.reason) + (p.detail ? ': ' + escaped(p.detail) : '');

const lineOf = (data) => data.b !== undefined ? bufferLine(plan.buffers[+data.b])
    : data.s !== undefined ? stepLine(state.program.steps[+data.s], +data.s)
    
    : data.c !== undefined ? flightLine(state.program.flights[+data.c])
    : data.p !== undefined ? partitionLine(state.program.partitions[+data.p], +data.p) : '';

const showDetails = () => {
  const {chosen, program, edges} = state, place = document.getElementById('details');
  place.classList.toggle('soft', !chosen);
  place.parentElement.classList.toggle('nothing', !chosen);
  if (!chosen) return;
  if (chosen.step === undefined) {
    const writers = [], readers = [];
    program.steps.forEach((step, s) => {
      if (step.writes.includes(chosen.buffer)) writers.push(s);
      if (step.reads.includes(chosen.buffer)) readers.push(s);
    });
    const list = (steps) => steps.length ? steps.slice(0, 12).map((s) => s + ' ' + escaped(stepName(program.steps[s]))).join(', ') +
        (steps.length > 12 ? ', and ' + (steps.length - 12) + ' more' : '') : 'none';
    place.innerHTML = bufferLine(plan.buffers[chosen.buffer]) + '<br>written by ' + list(writers) + '<br>read by ' + list(readers);
    return;
  }
  const step = program.steps[chosen.step];
  const names = (ids) => ids.length ? ids.map((b) => escaped(plan.buffers[b].name || '#' + b)).join(', ') : 'nothing';
  place.innerHTML = stepLine(step, chosen.step) + '<br>reads ' + names(step.reads) + '<br>writes ' + names(step.writes) +
      '<br>after steps ' + (edges.from[chosen.step].join(', ') || 'none') + '; before steps ' + (edges.to[chosen.step].join(', ') || 'none');
};

const showLargest = () => {
  const {shown, memory} = state, most = 25;
  const sorted = shown.slice().sort((a, b) => b.bytes - a.bytes || a.index - b.index).slice(0, most);
  let html = '<table><tr><th>buffer<th>kind<th class="n">bytes<th class="n">offset<th>alive<th>at the peak<th>source nodes';
  for (const b of sorted) {
    html += '<tr class="pick" data-b="' + b.index + '"><td>' + escaped(b.name || '#' + b.index) + '<td>' + escaped(b.kind) +
        '<td class="n">' + bytesText(b.bytes) + '<td class="n">' + b.offset + '<td class="whole">' + b.first + ' to ' + b.last +
        '<td>' + (b.first <= memory.peak && memory.peak <= b.last ? 'yes' : '') + '<td>' + escaped(b.source);
  }
  document.getElementById('largest').innerHTML = html + '</table>' +
      (shown.length > most ? '<p class="soft">' + (shown.length - most) + ' smaller ones are not listed.</p>' : '');
};

const kRow = 22;

const rowHtml = (step, s) => {
  const {found, chosen} = state, hit = found !== null && found.steps.has(s);
  const classes = 'row' + (hit ? ' found' : found !== null ? ' out' : '') + (chosen && chosen.step === s ? ' chosen' : '');
  return '<div class="' + classes + '" data-s="' + s + '"><span></span><span>' + s + '</span><span>' + step.device + '.' + step.stream +
      '</span><span title="' + escaped(stepName(step)) + '">' + escaped(stepName(step)) + '</span><span>' + bytesText(step.read) + ' → ' +
      bytesText(step.written) + '</span><span title="' + escaped(step.source) + '">' + escaped(step.source) + '</span></div>';
};

// Arcs between the lines first..last and all others; longer arcs are wider.
const arcsHtml = (first, last) => {
  const {edges, chosen} = state, arcs = new Map();
  for (let s = first; s < last; ++s) {
    for (const a of edges.from[s]) arcs.set(a + '-' + s, [a, s]);
    for (const b of edges.to[s]) arcs.set(s + '-' + b, [s, b]);
  }
  let html = '';
  for (const [a, b] of arcs.values()) {
    const y1 = (Math.max(a, first - 60) + .5) * kRow - first * kRow, y2 = (Math.min(b, last + 60) + .5) * kRow - first * kRow;
    const left = 146 - Math.min(140, 10 + 22 * Math.log2(b - a + 1));
    const lit = chosen && (chosen.step === a || chosen.step === b) ? ' class="lit"' : '';
    html += '<path' + lit + ' d="M148 ' + y1 + 'C' + left + ' ' + y1 + ' ' + left + ' ' + y2 + ' 148 ' + y2 + '"/>';
  }
  return html;
};

// Only has the visible lines, or all of them for printing.
const showGraph = (all) => {
  const graph = document.getElementById('graph'), steps = state.program.steps;
  const first = all ? 0 : Math.max(0, Math.floor(graph.scrollTop / kRow) - 10);
  const last = all ? steps.length : Math.min(steps.length, first + Math.ceil(graph.clientHeight / kRow) + 20);
  let rows = '';
  for (let s = first; s < last; ++s) rows += rowHtml(steps[s], s);
  const height = (last - first) * kRow;
  const arcs = all ? '' : '<svg height="' + height + '" viewBox="0 0 150 ' + height + '">' + arcsHtml(first, last) + '</svg>';
  graph.innerHTML = '<div style="height:' + (all ? 0 : steps.length * kRow) + 'px"></div><div class="rows" style="top:' + first * kRow + 'px">' +
      rows + arcs + '</div>';
};
