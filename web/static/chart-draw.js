// How a chart looks on the canvas. Colours are the tokens of the page, read through a probe, because a canvas knows no
// variables; everything the SVG shows - band, limit, hatch, axis - is drawn here in the same place.

/**
 * @typedef {{value: number, class: string, text: string}} Limit
 * @typedef {{unit: string, from: number, to: number, min: number, max: number, ticks: number[],
 *   series: {label: string, color: string, area?: boolean, dash?: number[]}[], bands: [number, number][], limits: Limit[],
 *   marks?: {at: number, text: string, kind: string}[], below?: number, proj?: [number, number][], now?: number, frozen?: [number, number][]}} Spec
 */

/**
 * @param {HTMLElement} host
 * @param {string} token
 * @param {number} [percent] how much of it, the rest transparent
 */
function colour(host, token, percent = 100) {
  const probe = document.createElement('i');
  probe.style.color = `color-mix(in srgb, var(${token}) ${percent}%, transparent)`;
  host.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/**
 * @param {number} v
 * @param {string} unit
 */
const words = (v, unit) => {
  const digits = String(Math.abs(Math.round(v * 100) / 100)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  return (v < 0 ? '\u2212' : '') + digits + (unit ? '\u202f' + unit : '');
};

/**
 * @param {HTMLElement} host
 * @param {Spec} spec
 * @param {any[]} data
 * @param {number} height
 * @param {(index: number | null | undefined) => void} onCursor
 */
export function draw(host, spec, data, height, onCursor) {
  const uPlot = /** @type {any} */ (globalThis).uPlot;
  const ink3 = colour(host, '--ink3');
  const look = {
    grid: colour(host, '--grid'), line: colour(host, '--line'), chaos: colour(host, '--chaos-fill'), band: colour(host, '--chaos-fill', 17), hatch: colour(host, '--unknown-fill', 50),
    mark: ink3, now: colour(host, '--ink'), below: colour(host, '--emergency-fill', 26), proj: colour(host, '--c1'),
    warn: colour(host, '--warn-fill'), emergency: colour(host, '--emergency-fill'), frozen: colour(host, '--frozen-fill'),
    text: { warn: colour(host, '--warn-fg'), emergency: colour(host, '--emergency-fg'), frozen: colour(host, '--frozen-fg') },
  };
  const sans = getComputedStyle(host).fontFamily;
  const font = `11px ${sans}`;
  const zone = document.querySelector('#live abbr')?.getAttribute('title') || 'UTC';
  const state = { spec, look, sans };
  const plot = new uPlot({
    width: Math.max(host.clientWidth, 200), height,
    legend: { show: false },
    padding: [8, 16, 0, 0],
    tzDate: (/** @type {number} */ at) => uPlot.tzDate(new Date(at * 1000), zone),
    scales: { x: { time: true, range: () => [state.spec.from, state.spec.to] }, y: { range: () => [state.spec.min, state.spec.max] } },
    axes: [
      { stroke: ink3, font, size: 24, gap: 6, space: 90, grid: { show: false }, ticks: { show: false }, values: (/** @type {any} */ u, /** @type {number[]} */ at) => at.map((t) => when(t, zone, state.spec)) },
      { stroke: ink3, font, size: 44 + (spec.min <= -1000 ? 16 : spec.min <= -100 ? 8 : 0), gap: 6, grid: { stroke: look.grid, width: 1 }, ticks: { show: false }, splits: () => state.spec.ticks,
        values: (/** @type {any} */ u, /** @type {number[]} */ ticks) => ticks.map((v) => words(v, state.spec.unit)) },
    ],
    series: [{}, ...spec.series.map((s) => {
      const stroke = colour(host, s.color);
      return { label: s.label, stroke, width: 1.75, dash: s.dash, fill: s.area ? colour(host, s.color, 12) : undefined,
        fillTo: (/** @type {any} */ u) => Math.max(0, u.scales.y.min), points: { show: alone }, spanGaps: false };
    })],
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
    hooks: {
      drawClear: [(/** @type {any} */ u) => behind(u, state)],
      draw: [(/** @type {any} */ u) => limits(u, state), (/** @type {any} */ u) => over(u, state)],
      setCursor: [(/** @type {any} */ u) => onCursor(u.cursor.left < 0 ? null : u.cursor.idx)],
    },
  }, data, host);
  plot.bw = state;
  return plot;
}

/** A point with no neighbour has no line; it is shown as a dot. */
function alone(/** @type {any} */ u, /** @type {number} */ series) {
  const ys = u.data[series];
  return ys.filter((/** @type {number | null} */ y) => y != null).length < 3;
}

/**
 * New values into the same canvas.
 * @param {any} plot
 * @param {Spec} spec
 * @param {any[]} data
 */
export function paint(plot, spec, data) {
  plot.bw.spec = spec;
  plot.setData(data);
}

/**
 * @param {number} at
 * @param {string} zone
 * @param {Spec} spec
 */
function when(at, zone, spec) {
  const long = spec.to - spec.from > 36 * 3600;
  const short = spec.to - spec.from <= 300;
  const parts = new Intl.DateTimeFormat('en-GB', { timeZone: zone, day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }).formatToParts(at * 1000);
  const get = (/** @type {string} */ type) => parts.find((p) => p.type === type)?.value || '';
  const tongue = document.documentElement.lang;
  if (long && tongue !== 'en') return new Intl.DateTimeFormat(tongue, { timeZone: zone, day: 'numeric', month: 'short' }).format(at * 1000);
  if (long) return `${get('day')} ${get('month')}`;
  return `${get('hour')}:${get('minute')}` + (short ? `:${get('second')}` : '');
}

/**
 * Bands and hatches lie behind the data.
 * @param {any} u
 * @param {{spec: Spec, look: any}} state
 */
function behind(u, { spec, look }) {
  const { ctx, bbox } = u;
  const x = (/** @type {number} */ at) => Math.min(Math.max(u.valToPos(at, 'x', true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  for (const [from, to] of spec.bands) {
    const left = x(from), right = Math.max(x(to), left + 2 * devicePixelRatio);
    ctx.fillStyle = look.band;
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.fillStyle = look.chaos;
    ctx.fillRect(left, bbox.top, devicePixelRatio, bbox.height);
    ctx.fillRect(right - devicePixelRatio, bbox.top, devicePixelRatio, bbox.height);
  }
  const [at, ys] = u.data;
  if (spec.below !== undefined) under(u, spec.below, look.below);
  for (let i = 0; i < ys.length; i++) {
    if (ys[i] != null) continue;
    const first = i;
    while (i + 1 < ys.length && ys[i + 1] == null) i++;
    hatch(ctx, x(at[Math.max(first - 1, 0)]), bbox.top, x(at[Math.min(i + 1, at.length - 1)]), bbox.top + bbox.height, look.hatch);
  }
  ctx.restore();
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} left
 * @param {number} top
 * @param {number} right
 * @param {number} bottom
 * @param {string} stroke
 */
function hatch(ctx, left, top, right, bottom, stroke) {
  const gap = 8.5 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, bottom - top);
  ctx.clip();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  for (let x = left - (bottom - top); x < right; x += gap) {
    ctx.moveTo(x, bottom);
    ctx.lineTo(x + (bottom - top), top);
  }
  ctx.stroke();
  ctx.restore();
}

/**
 * Limits lie over the data, with their words on the line.
 * @param {any} u
 * @param {{spec: Spec, look: any, sans: string}} state
 */
function limits(u, { spec, look, sans }) {
  const { ctx, bbox } = u;
  const r = devicePixelRatio;
  ctx.save();
  for (const limit of spec.limits) {
    const y = Math.round(u.valToPos(limit.value, 'y', true)) + 0.5;
    ctx.strokeStyle = look[limit.class];
    ctx.lineWidth = (limit.class === 'frozen' ? 1.5 : 1) * r;
    ctx.setLineDash(limit.class === 'frozen' ? [] : [5 * r, 4 * r]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${11 * r}px ${sans}`;
    ctx.fillStyle = look.text[limit.class];
    const high = y - 15 * r < bbox.top;
    ctx.textBaseline = high ? 'top' : 'bottom';
    ctx.textAlign = 'left';
    ctx.fillText(limit.text, bbox.left + 4 * r, y + (high ? 4 : -3) * r);
  }
  ctx.restore();
}

/**
 * What lies under the target is shaded from the target down to the line.
 * @param {any} u
 * @param {number} target
 * @param {string} fill
 */
function under(u, target, fill) {
  const { ctx } = u;
  const [at, ys] = u.data;
  const base = u.valToPos(target, 'y', true);
  ctx.fillStyle = fill;
  for (let i = 0; i < ys.length; i++) {
    if (ys[i] == null || ys[i] >= target) continue;
    const first = i;
    while (i + 1 < ys.length && ys[i + 1] != null && ys[i + 1] < target) i++;
    ctx.beginPath();
    ctx.moveTo(u.valToPos(at[Math.max(first - (ys[first - 1] == null ? 0 : 1), 0)], 'x', true), base);
    for (let k = first; k <= i; k++) ctx.lineTo(u.valToPos(at[k], 'x', true), u.valToPos(ys[k], 'y', true));
    ctx.lineTo(u.valToPos(at[Math.min(i + (ys[i + 1] == null ? 0 : 1), at.length - 1)], 'x', true), base);
    ctx.fill();
  }
}

/**
 * Marks, the projection and the line of now lie over all.
 * @param {any} u
 * @param {{spec: Spec, look: any, sans: string}} state
 */
function over(u, { spec, look, sans }) {
  const { ctx, bbox } = u;
  const r = devicePixelRatio;
  const upright = (/** @type {number} */ at, /** @type {string} */ stroke, /** @type {number} */ width) => {
    const x = Math.round(u.valToPos(at, 'x', true)) + 0.5;
    ctx.strokeStyle = stroke;
    ctx.lineWidth = width * r;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    return x;
  };
  ctx.save();
  ctx.font = `${11 * r}px ${sans}`;
  ctx.textBaseline = 'top';
  for (const { at, text } of spec.marks || []) {
    const x = upright(at, look.mark, 1);
    const left = x > bbox.left + bbox.width * 0.7;
    ctx.fillStyle = look.mark;
    ctx.textAlign = left ? 'right' : 'left';
    if (text && bbox.width > 480 * r) ctx.fillText(text, x + (left ? -6 : 6) * r, bbox.top + 8 * r);
  }
  ctx.fillStyle = look.frozen;
  for (const [from, to] of spec.frozen || []) {
    const x = (/** @type {number} */ at) => Math.min(Math.max(u.valToPos(at, 'x', true), bbox.left), bbox.left + bbox.width);
    ctx.fillRect(x(from), bbox.top, Math.max(x(to) - x(from), 2 * r), 5 * r);
  }
  if (spec.now) upright(spec.now, look.now, 1.5);
  if (spec.proj?.length) {
    ctx.strokeStyle = look.proj;
    ctx.lineWidth = 1.75 * r;
    ctx.setLineDash([4 * r, 4 * r]);
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.beginPath();
    spec.proj.forEach(([at, v], i) => ctx[i ? 'lineTo' : 'moveTo'](u.valToPos(at, 'x', true), u.valToPos(v, 'y', true)));
    ctx.stroke();
  }
  ctx.restore();
}
