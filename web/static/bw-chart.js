// <bw-chart> draws with uPlot what its table says: one set of values for people, for screen readers and for the canvas.
// The server's SVG stays until this has drawn, and for ever where there is no script. Arrow keys move the cursor by a
// step, with Shift by ten, Escape leaves; the card beside it shows the whole row of the table.
import { draw, paint } from "./chart-draw.js";

/** @type {Promise<void> | undefined} */
let loading;

/**
 * uPlot comes as a classic script; it is fetched once, when the first chart needs it.
 * @param {string} src
 */
function library(src) {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement('script');
    script.src = src;
    script.onload = () => done();
    script.onerror = () => failed(new Error('no ' + src));
    document.head.append(script);
  });
  return loading;
}

class BwChart extends HTMLElement {
  async connectedCallback() {
    const host = this.querySelector('.plot');
    if (!(host instanceof HTMLElement) || !this.querySelector('table')) return;
    this.host = host;
    // An update may move this element, which ends one stay in the page and begins another at once.
    const { signal } = this.stay = new AbortController();
    try {
      await library(this.dataset.plot || '');
    } catch {
      return; // the SVG says the same
    }
    if (signal.aborted) return;
    this.build();
    this.changes = new MutationObserver(() => this.again());
    this.changes.observe(this, { attributes: true, attributeFilter: ['data-chart'], subtree: true, characterData: true });
    this.changes.observe(/** @type {Element} */ (this.querySelector('tbody')), { childList: true, subtree: true, attributes: true });
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.build(), { signal });
    host.addEventListener('keydown', (event) => this.key(event), { signal });
    host.addEventListener('blur', () => this.leave(), { signal });
  }

  disconnectedCallback() {
    // A reason of our own: the exception made in its absence keeps the stack, and with it what others left behind.
    this.stay?.abort('left the page');
    this.stay = undefined;
    this.changes?.disconnect();
    this.sizes?.disconnect();
    cancelAnimationFrame(this.frame || 0);
    this.plot?.destroy();
    this.plot = undefined;
  }

  /** Reads the table: times, one column of values for each series, and the text of every row. */
  read() {
    const spec = JSON.parse(this.dataset.chart || '{}');
    const rows = [...this.querySelectorAll('tbody tr')];
    const names = [...this.querySelectorAll('thead th')].slice(1).map((th) => th.textContent || '');
    const at = rows.map((row) => Date.parse(row.querySelector('time')?.dateTime || '') / 1000);
    const values = rows.map((row) => {
      const v = row.querySelector('td')?.getAttribute('data-v');
      return v == null ? null : Number(v);
    });
    this.rows = rows.map((row) => ({
      time: row.querySelector('time')?.textContent || '',
      cells: [...row.querySelectorAll('td')].map((td, i) => [names[i], td.textContent || '']),
    }));
    return { spec, data: [at, values] };
  }

  build() {
    const host = /** @type {HTMLElement} */ (this.host);
    const svg = this.querySelector('figure > svg');
    this.removeAttribute('data-on');
    const height = svg?.getBoundingClientRect().height || 264;
    const { spec, data } = this.read();
    this.plot?.destroy();
    host.textContent = '';
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    this.tip.hidden = true;
    this.plot = draw(host, spec, data, Math.round(height), (index) => this.show(index));
    host.append(this.tip);
    host.tabIndex = 0;
    host.setAttribute('role', 'group');
    host.setAttribute('data-keys', '');
    host.setAttribute('aria-label', (svg?.getAttribute('aria-label') || 'Chart') + '. ' + (this.dataset.keysHelp || 'Arrow keys read single values; the table below has them all.'));
    this.setAttribute('data-on', '');
    this.fit();
  }

  again() {
    cancelAnimationFrame(this.frame || 0);
    this.frame = requestAnimationFrame(() => {
      const { spec, data } = this.read();
      if (this.plot) paint(this.plot, spec, data);
    });
  }

  fit() {
    const width = Math.floor(/** @type {HTMLElement} */ (this.host).clientWidth);
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.plot.height });
  }

  /** @param {number | null | undefined} index */
  show(index) {
    const tip = this.tip;
    if (!tip || !this.plot || !this.rows) return;
    const row = index == null ? undefined : this.rows[index];
    tip.hidden = !row;
    if (!row || index == null) return;
    tip.replaceChildren(line('b', row.time), ...row.cells.map(([name, text]) => line('span', name, text)));
    const x = this.plot.valToPos(this.plot.data[0][index], 'x') + this.plot.bbox.left / devicePixelRatio;
    const right = x > this.plot.width * 0.62;
    tip.style.left = right ? '' : Math.round(x + 12) + 'px';
    tip.style.right = right ? Math.round(this.plot.width - x + 12) + 'px' : '';
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const plot = this.plot;
    if (!plot || !this.rows) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') return this.leave();
    if (!step) return;
    event.preventDefault();
    const from = plot.cursor.idx ?? this.rows.length - 1;
    const to = Math.min(Math.max(from + step * (event.shiftKey ? 10 : 1), 0), this.rows.length - 1);
    plot.setCursor({ left: plot.valToPos(plot.data[0][to], 'x'), top: plot.bbox.height / devicePixelRatio / 2 });
  }

  leave() {
    this.plot?.setCursor({ left: -10, top: -10 });
    if (this.tip) this.tip.hidden = true;
  }
}

/**
 * @param {string} tag
 * @param {string} text
 * @param {string} [value]
 */
function line(tag, text, value) {
  const el = document.createElement(tag);
  el.textContent = text;
  if (value !== undefined) {
    const strong = document.createElement('strong');
    strong.textContent = value;
    el.append(strong);
  }
  return el;
}

customElements.define('bw-chart', BwChart);
