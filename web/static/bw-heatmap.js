// <bw-heatmap> gives the server's heat map a cursor: a line over the step under the pointer and a card with its row of
// the table. Arrow keys move it, Shift by ten, Escape leaves. Without script the picture and the table say the same.
class BwHeatmap extends HTMLElement {
  connectedCallback() {
    const svg = this.querySelector('svg.heat');
    if (!(svg instanceof SVGElement)) return;
    this.at = -1;
    const { signal } = this.stay = new AbortController();
    svg.setAttribute('tabindex', '0');
    svg.setAttribute('data-keys', '');
    svg.addEventListener('pointermove', (event) => {
      const { left, width } = this.box(svg);
      this.show(svg, Math.floor(((event.clientX - left) / width) * this.rows().length));
    }, { signal });
    svg.addEventListener('pointerleave', () => this.hide(), { signal });
    svg.addEventListener('blur', () => this.hide(), { signal });
    svg.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === 'Escape') return this.hide();
      if (!step) return;
      event.preventDefault();
      const last = this.rows().length - 1;
      this.show(svg, Math.min(Math.max((this.at < 0 ? last + 1 : this.at) + step * (event.shiftKey ? 10 : 1), 0), last));
    }, { signal });
  }

  disconnectedCallback() {
    this.stay?.abort('left the page'); // see bw-chart.js
    this.stay = undefined;
  }

  rows() {
    return [...this.querySelectorAll('tbody tr')];
  }

  /** The plot without the room for its labels. @param {SVGElement} svg */
  box(svg) {
    const outer = svg.getBoundingClientRect();
    const style = getComputedStyle(svg);
    const left = outer.left + parseFloat(style.paddingLeft);
    return { left, width: outer.right - parseFloat(style.paddingRight) - left, top: outer.top, height: outer.height - parseFloat(style.paddingBottom) };
  }

  /**
   * @param {SVGElement} svg
   * @param {number} index
   */
  show(svg, index) {
    const rows = this.rows();
    const row = rows[index];
    if (!row) return this.hide();
    this.at = index;
    // An update takes away what the server did not make.
    if (!this.card?.isConnected) this.card = this.appendChild(Object.assign(document.createElement('div'), { className: 'tip' }));
    if (!this.line?.isConnected) this.line = this.appendChild(Object.assign(document.createElement('div'), { className: 'cross' }));
    const names = [...this.querySelectorAll('thead th')].map((th) => th.textContent || '');
    const title = document.createElement('b');
    title.textContent = row.querySelector('time')?.textContent || '';
    this.card.replaceChildren(title, ...[...row.querySelectorAll('td')].map((td, i) => {
      const line = document.createElement('span');
      const value = document.createElement('strong');
      value.textContent = td.textContent;
      line.append(names[i + 1], value);
      return line;
    }));
    const outer = this.getBoundingClientRect();
    const { left, width, top, height } = this.box(svg);
    const x = left - outer.left + (width * (index + 0.5)) / rows.length;
    this.line.style.left = x + 'px';
    this.line.style.top = top - outer.top + 'px';
    this.line.style.height = height + 'px';
    this.card.style.top = top - outer.top + 10 + 'px';
    const right = x > outer.width * 0.62;
    this.card.style.left = right ? '' : x + 12 + 'px';
    this.card.style.right = right ? outer.width - x + 12 + 'px' : '';
    this.card.hidden = this.line.hidden = false;
  }

  hide() {
    this.at = -1;
    if (this.card) this.card.hidden = true;
    if (this.line) this.line.hidden = true;
  }
}

customElements.define('bw-heatmap', BwHeatmap);
