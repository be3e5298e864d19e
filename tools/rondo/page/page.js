// The view, the selection, and the reader's actions. The part of the address after '#' sets them: program, device, find,
// step, buffer, from, to, begin, end (microseconds) ("#program=1&find=rotary"), so that one can link to a place in a plan.
'use strict';

const state = {program: null, device: 0, shown: [], memory: null, edges: null, view: [0, 1], span: [0, 1], found: null, chosen: null};
const element = (id) => document.getElementById(id);

const search = (words) => {
  const wanted = words.trim().toLowerCase();
  state.found = null;
  element('matches').textContent = '';
  if (wanted !== '') {
    const has = (...texts) => texts.some((text) => String(text).toLowerCase().includes(wanted));
    const buffers = new Set(state.shown.filter((b) => has(b.name, b.source, '#' + b.index)).map((b) => b.index)), steps = new Set();
    state.program.steps.forEach((step, s) => {
      if (has(step.what, step.label, step.source, step.kind)) steps.add(s);
    });
    state.found = {buffers, steps};
    element('matches').textContent = steps.size + ' steps, ' + buffers.size + ' buffers';
  }
};

// Scrolls the list of steps only.
const bringIntoSight = (s) => {
  const graph = element('graph'), top = s * kRow;
  if (top < graph.scrollTop || top > graph.scrollTop + graph.clientHeight - kRow) graph.scrollTop = Math.max(0, top - graph.clientHeight / 2);
};

const choose = (data) => {
  if (data.b !== undefined) state.chosen = {buffer: +data.b};
  else if (data.s !== undefined) state.chosen = {step: +data.s};
  else return;
  const chosen = state.chosen.step !== undefined ? state.chosen.step : plan.buffers[state.chosen.buffer].first;
  if (chosen < state.program.steps.length) bringIntoSight(chosen);
  showDetails();
  markPictures();
  showGraph(false);
};

const showProgram = (index, device) => {
  const program = plan.programs[index];
  Object.assign(state, {program, device, chosen: null, shown: arenaBuffers(index, device), edges: edgesOf(program),
                        view: [0, Math.max(1, program.steps.length)], span: [0, Math.max(1e-3, program.end)]});
  state.memory = liveBytes(state.shown, program.steps.length);
  const percent = program.bound > 0 ? (100 * program.arena / program.bound).toFixed(1) : '100.0';
  element('arena-facts').textContent = program.steps.length + ' steps, arena ' + bytesText(program.arena) + ', lower bound ' +
      bytesText(program.bound) + ' (' + percent + ' %)' + (program.loops.length ? '; ' + program.loops.map(
          (l) => 'steps ' + l.first + ' to ' + (l.first + l.steps - 1) + ' are taken ' + l.trips + ' times').join(', ') : '');
  search(element('search').value);
  drawPictures();
  showLargest();
  showGraph(false);
};

const fill = (select, names) => {
  select.innerHTML = names.map((name, i) => '<option value="' + i + '">' + escaped(name) + '</option>').join('');
  select.parentElement.style.display = names.length > 1 ? '' : 'none';
};

const listen = () => {
  const again = () => showProgram(+element('program').value, +element('device').value);
  element('program').onchange = again;
  element('device').onchange = again;
  element('search').oninput = () => {
    search(element('search').value);
    if (state.found && state.found.steps.size) bringIntoSight(Math.min(...state.found.steps));
    markPictures();
    showGraph(false);
  };
  element('closer').onclick = () => zoomAll(.5);
  element('wider').onclick = () => zoomAll(2);
  element('whole').onclick = () => zoomAll(1e9);
  element('graph').onscroll = () => showGraph(false);
  document.addEventListener('click', (event) => {
    const target = event.target.closest('[data-b],[data-s]');
    if (target) choose(target.dataset);
  });
  const tip = element('tip');
  document.addEventListener('mousemove', (event) => {
    const target = event.target.closest && event.target.closest('svg [data-b],svg [data-s],svg [data-p],svg [data-c]');
    tip.style.display = target ? 'block' : 'none';
    if (!target) return;
    tip.innerHTML = lineOf(target.dataset);
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
  });
  for (const plot of document.querySelectorAll('.plot')) {
    let dragged = null;
    plot.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
      event.preventDefault();
      const box = plot.querySelector('svg').getBoundingClientRect();
      zoom(axisOf(plot), Math.exp(event.deltaY / 400), (event.clientX - box.left) / box.width);
    }, {passive: false});
    plot.addEventListener('pointerdown', (event) => { dragged = {x: event.clientX, shown: axisOf(plot).shown()}; });
    plot.addEventListener('pointermove', (event) => {
      if (!dragged || !event.buttons) return;
      const [from, to] = dragged.shown;
      showFrom(axisOf(plot), from - (event.clientX - dragged.x) / plot.querySelector('svg').clientWidth * (to - from), to - from);
    });
    plot.addEventListener('pointerup', () => { dragged = null; });
  }
  addEventListener('resize', labelArena);
  addEventListener('beforeprint', () => {
    zoomAll(1e9);
    showGraph(true);
    for (const one of document.querySelectorAll('details')) one.open = true;
  });
  addEventListener('afterprint', () => showGraph(false));
};

const start = () => {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name, below) => Math.max(0, Math.min(below - 1, parseInt(asked.get(name) || '0', 10) || 0));
  fill(element('program'), plan.programs.map((p) => p.name || 'program'));
  fill(element('device'), plan.devices.map((_, d) => String(d)));
  element('program').value = number('program', plan.programs.length);
  element('device').value = number('device', plan.devices.length);
  element('search').value = asked.get('find') || '';
  listen();
  if (plan.programs.length === 0) return;
  showProgram(+element('program').value, +element('device').value);
  if (asked.has('from')) {
    const all = state.program.steps.length, from = number('from', all);
    state.view = [from, Math.max(from + 1, asked.has('to') ? number('to', all) + 1 : all)];
    showView();
  }
  if (asked.has('begin')) {
    const begin = parseFloat(asked.get('begin')) || 0, end = parseFloat(asked.get('end')) || state.program.end;
    showFrom(kAxes.time, begin, Math.min(state.program.end, Math.max(1, end - begin)));
  }
  if (asked.has('step')) choose({s: number('step', state.program.steps.length)});
  if (asked.has('buffer')) choose({b: number('buffer', plan.buffers.length)});
};

start();
