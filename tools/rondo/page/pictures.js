// The pictures that share the steps as their axis: live bytes, the arena, and the lanes of the streams.
'use strict';

const kHeights = {curve: 90, arena: 420, lane: 26};

// SVG whose x is a step and whose y is a pixel; the steps shown are [view[0], view[1]).
const svgText = (height, body) => '<svg preserveAspectRatio="none" height="' + height + '" viewBox="' + state.view[0] +
    ' 0 ' + (state.view[1] - state.view[0]) + ' ' + height + '">' + body + '</svg>';

const line = (x1, y1, x2, y2, style) => '<line x1="' + x1 + '" y1="' + y1 + '" x2="' + x2 + '" y2="' + y2 +
    '" vector-effect="non-scaling-stroke" style="' + style + '"/>';

const drawCurve = () => {
  const {program, shown, memory} = state, h = kHeights.curve, most = Math.max(1, program.arena, program.bound);
  const y = (bytes) => (h - 2 - (h - 6) * bytes / most).toFixed(2);
  let path = 'M0 ' + y(0);
  for (let s = 0; s < program.steps.length; ++s) path += 'L' + s + ' ' + y(memory.live[s]) + 'L' + (s + 1) + ' ' + y(memory.live[s]);
  path += 'L' + program.steps.length + ' ' + y(0) + 'Z';
  const peak = memory.peak + .5;
  document.getElementById('curve').innerHTML = svgText(h,
      '<path d="' + path + '" fill="#dbe9f6" stroke="#4a7ba6" vector-effect="non-scaling-stroke"/>' +
      line(0, y(program.bound), program.steps.length, y(program.bound), 'stroke:#c0392b;stroke-dasharray:6 4') +
      line(peak, 0, peak, h, 'stroke:#c0392b;stroke-width:.7')) +
      '<span class="corner">live bytes; most, ' + bytesText(memory.live[memory.peak] || 0) + ', at step ' + memory.peak +
      (shown.length ? '' : '; no buffer lies in this arena') + '</span>';
};

const drawArena = () => {
  const {program, shown} = state, h = kHeights.arena, most = Math.max(1, program.arena);
  let body = '';
  for (const b of shown) {
    const height = h * b.bytes / most, y = h - h * b.offset / most - height;
    body += '<rect data-b="' + b.index + '" x="' + b.first + '" y="' + y.toFixed(3) + '" width="' + (b.last + 1 - b.first) +
        '" height="' + Math.max(height, .4).toFixed(3) + '" class="k-' + b.kind + '"/>';
  }
  const bound = (h - h * program.bound / most).toFixed(2);
  document.getElementById('arena').innerHTML =
      svgText(h, body + line(0, bound, program.steps.length, bound, 'stroke:#c0392b;stroke-dasharray:6 4')) +
      '<div class="labels"></div>';
};

// Draws names if there is room for them.
const labelArena = () => {
  const plot = document.getElementById('arena'), labels = plot.querySelector('.labels');
  const [from, to] = state.view, across = plot.clientWidth / (to - from), h = kHeights.arena;
  const most = Math.max(1, state.program.arena);
  const large = state.shown.filter((b) => h * b.bytes / most >= 12).sort((a, b) => b.bytes - a.bytes);
  let html = '', count = 0;
  for (const b of large) {
    const left = Math.max(0, (b.first - from) * across), right = Math.min(plot.clientWidth, (b.last + 1 - from) * across);
    if (right - left < 50 || ++count > 150) continue;
    html += '<span class="label" style="left:' + (left + 3) + 'px;width:' + (right - left - 6) + 'px;top:' +
        (h - h * (b.offset + b.bytes) / most + 1) + 'px">' + escaped(b.name || '#' + b.index) + '</span>';
  }
  labels.innerHTML = html;
};

const drawLanes = () => {
  const {program} = state, lanes = [], of = new Map();
  program.steps.forEach((step) => {
    const key = step.device + '/' + step.stream;
    if (of.has(key)) return;
    of.set(key, 0);
    lanes.push({key, device: step.device, stream: step.stream});
  });
  lanes.sort((a, b) => a.device - b.device || a.stream - b.stream).forEach((lane, i) => of.set(lane.key, i));
  const h = kHeights.lane, top = 20, height = top + lanes.length * h;
  let body = '', labels = '';
  program.partitions.forEach((p, i) => {
    body += '<rect data-p="' + i + '" x="' + p.first + '" y="' + (2 + 6 * (p.device % 3)) + '" width="' + p.steps + '" height="5" style="--of:' +
        (i % 2 ? '#6e7781' : '#afb8c1') + '"/>';
  });
  program.steps.forEach((step, s) => {
    const y = top + of.get(step.device + '/' + step.stream) * h;
    body += '<rect data-s="' + s + '" x="' + s + '" y="' + (y + 3) + '" width="1" height="' + (h - 6) + '" class="' + stepClass[step.kind] + '"/>';
  });
  lanes.forEach((lane, i) => {
    labels += '<span class="corner" style="top:' + (top + i * h - 1) + 'px;opacity:.75">' +
        (lanes.length > 1 ? 'device ' + lane.device + ', stream ' + lane.stream : '') + '</span>';
  });
  document.getElementById('lanes').innerHTML = svgText(height, body) + labels;
};

const drawPictures = () => {
  drawCurve();
  drawArena();
  drawLanes();
  drawTimeline();
  labelArena();
  markPictures();
};

// Only the visible range of steps changes.
const showView = () => {
  for (const id of ['curve', 'arena', 'lanes']) {
    const svg = document.querySelector('#' + id + ' svg'), box = svg.getAttribute('viewBox').split(' ');
    svg.setAttribute('viewBox', state.view[0] + ' 0 ' + (state.view[1] - state.view[0]) + ' ' + box[3]);
  }
  labelArena();
};

// A picture's horizontal axis, of which a part is shown: steps, or the time of the run.
const kAxes = {
  steps: {least: 4, all: () => Math.max(1, state.program.steps.length), shown: () => state.view,
          show: (view) => { state.view = view; showView(); }},
  time: {least: 1, all: () => Math.max(1e-3, state.program.end), shown: () => state.span,
         show: (span) => { state.span = span; showSpan(); }},
};
const axisOf = (plot) => plot.id === 'timeline' ? kAxes.time : kAxes.steps;

// Shows `width` from `left` on, or the nearest possible range.
const showFrom = (axis, left, width) => {
  const from = Math.max(0, Math.min(axis.all() - width, left));
  axis.show([from, from + width]);
};

// Keeps the point at `at` (0 to 1 across) in its place.
const zoom = (axis, factor, at) => {
  const all = axis.all(), [from, to] = axis.shown();
  const width = Math.min(all, Math.max(Math.min(axis.least, all), (to - from) * factor));
  showFrom(axis, from + (to - from) * at - width * at, width);
};
const zoomAll = (factor) => Object.values(kAxes).forEach((axis) => zoom(axis, factor, .5));

const markPictures = () => {
  const {found, chosen} = state, touched = chosen && chosen.step !== undefined ? state.program.steps[chosen.step] : null;
  for (const box of document.querySelectorAll('#arena rect')) {
    const b = +box.dataset.b;
    const mine = (chosen && chosen.buffer === b) || (touched && (touched.reads.includes(b) || touched.writes.includes(b)));
    box.classList.toggle('found', found !== null && found.buffers.has(b));
    box.classList.toggle('faded', found !== null && !found.buffers.has(b) && !mine);
    box.classList.toggle('chosen-box', !!mine);
  }
  for (const box of document.querySelectorAll('#lanes rect[data-s], #timeline rect[data-s]')) {
    const s = +box.dataset.s;
    box.classList.toggle('found', found !== null && found.steps.has(s));
    box.classList.toggle('faded', found !== null && !found.steps.has(s));
    box.classList.toggle('chosen-box', !!chosen && chosen.step === s);
  }
};
