// The estimated run over microseconds: lanes for each device's streams, and one for its collectives. A stream's wait is
// drawn in the waiting step; below each collective is its exposed time, before and after scheduling.
'use strict';

const kTime = {lane: 20, flight: 26, top: 18};

// A time; or, if only the table of one core is known and no machine was measured, the share of a run.
const microseconds = (us) => state.program.timed ? us.toFixed(us < 100 ? 1 : 0) + ' µs'
    : (100 * us / Math.max(state.program.end, 1e-9)).toFixed(1) + ' % of a run';

const flightLine = (c) => '<b>' + escaped(c.what) + '</b> (sync point ' + c.point + ', device ' + c.device + '): takes ' +
    microseconds(c.end - c.begin) + ', ' + microseconds(c.beside) + ' of compute beside it, exposed ' +
    (c.before === null ? '' : microseconds(c.before) + ' → ') + microseconds(c.exposed) +
    (c.begin - c.arrive >= .05 ? ', others come ' + microseconds(c.begin - c.arrive) + ' later' : '') +
    (c.limit ? '<br>stopped by: ' + escaped(c.limit) : '') + (c.source ? '<br>from ' + escaped(c.source) : '');

// Streams of every device in order, each device's collectives after them, with their positions.
const timeLanes = (program) => {
  const lanes = new Map();
  const add = (device, stream) => {
    const key = device + '/' + stream;
    if (!lanes.has(key)) lanes.set(key, {device, stream, flights: stream === Infinity});
  };
  for (const step of program.steps) add(step.device, step.stream);
  for (const c of program.flights) add(c.device, Infinity);
  const sorted = [...lanes.values()].sort((a, b) => a.device - b.device || (a.stream < b.stream ? -1 : 1));
  let y = kTime.top;
  for (const lane of sorted) {
    lane.y = y;
    y += lane.flights ? kTime.flight : kTime.lane;
  }
  return {sorted, height: y + 4, of: (device, stream) => lanes.get(device + '/' + stream)};
};

const timeBox = (attributes, y, height, begin, end) => '<rect ' + attributes + ' x="' + begin + '" y="' + y + '" width="' +
    (end - begin).toFixed(3) + '" height="' + height + '"/>';

const drawTimeline = () => {
  const {program, device} = state, lanes = timeLanes(program);
  let body = '', labels = '';
  program.steps.forEach((step, s) => {
    const waits = step.kind === 'collective wait';
    if (step.end <= step.begin) return;
    body += timeBox('class="' + (waits ? 't-exposed' : stepClass[step.kind]) + '" data-s="' + s + '"',
                    lanes.of(step.device, step.stream).y + 2, kTime.lane - 4, step.begin, step.end);
  });
  program.flights.forEach((c, i) => {
    const y = lanes.of(c.device, Infinity).y;
    body += timeBox('class="s-collective" data-c="' + i + '"', y + 2, 12, c.begin, c.end);
    if (c.before > 0) body += timeBox('class="t-before" data-c="' + i + '"', y + 15, 3, Math.max(0, c.end - c.before), c.end);
    if (c.exposed > 0) body += timeBox('class="t-exposed" data-c="' + i + '"', y + 19, 3, Math.max(0, c.end - c.exposed), c.end);
  });
  for (const lane of lanes.sorted) {
    labels += '<span class="corner" style="top:' + (lane.y + 1) + 'px">device ' + lane.device + ', ' +
        (lane.flights ? 'collectives' : 'stream ' + lane.stream) + '</span>';
  }
  const [from, to] = state.span;
  document.getElementById('timeline').innerHTML = '<svg preserveAspectRatio="none" height="' + lanes.height + '" viewBox="' + from + ' 0 ' +
      (to - from) + ' ' + lanes.height + '">' + body + '</svg>' + labels + '<div class="labels"></div>';
  const own = program.flights.filter((c) => c.device === device), sum = (key) => own.reduce((total, c) => total + (c[key] || 0), 0);
  document.getElementById('time-facts').textContent = (program.timed ? 'a run takes ' + microseconds(program.end)
      : 'by the table of one core: what takes long, and not how long on this machine') + (own.length === 0 ? '' : '; ' + own.length +
      ' collectives on device ' + device + ': exposed ' + (own.some((c) => c.before !== null) ? microseconds(sum('before')) + ' → ' : '') +
      microseconds(sum('exposed')) + ', ' + microseconds(sum('beside')) + ' of compute beside them');
  labelTime();
};

// The beginning and end of the visible time, and marks between.
const labelTime = () => {
  const [from, to] = state.span, ticks = 8;
  let html = '';
  for (let i = 0; i < ticks; ++i) {
    html += '<span class="label tick" style="left:' + 100 * i / ticks + '%">' + microseconds(from + (to - from) * i / ticks) + '</span>';
  }
  document.querySelector('#timeline .labels').innerHTML = html;
};

// Only the visible range of time changes.
const showSpan = () => {
  const svg = document.querySelector('#timeline svg'), box = svg.getAttribute('viewBox').split(' ');
  svg.setAttribute('viewBox', state.span[0] + ' 0 ' + (state.span[1] - state.span[0]) + ' ' + box[3]);
  labelTime();
};
