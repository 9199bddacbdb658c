// <bw-editor> checks an experiment while it is written: what was typed goes to the same address that the button asks, and
// what comes back, problems and preview, is morphed in. Form and text stay in step. Without script the button does it.
import { morph } from "./morph.js";

const pause = 700; // after the last key

class BwEditor extends HTMLElement {
  connectedCallback() {
    /** @type {number | undefined} */
    this.timer = undefined;
    this.typed = 0;
    this.busy = false;
    this.addEventListener('input', () => this.soon());
    this.addEventListener('change', () => this.soon());
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
  }

  soon() {
    this.typed += 1;
    this.say(this.dataset.unchecked || 'Not checked yet');
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), pause);
  }

  async check() {
    const form = this.querySelector('form');
    if (!form || this.busy) return;
    this.busy = true;
    const at = this.typed;
    try {
      const body = new URLSearchParams();
      for (const [name, value] of new FormData(form)) body.append(name, String(value));
      const answer = await fetch('/experiments/check?fragment=1', { method: 'POST', body, headers: { Accept: 'text/html' }, redirect: 'error' });
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('bw-editor');
      if (!next) throw new Error('no answer');
      if (at === this.typed) this.take(next);
    } catch {
      this.say(this.dataset.away || 'Not checked: control does not answer. What is typed stays here.');
    } finally {
      this.busy = false;
      if (at !== this.typed) this.soon();
    }
  }

  /** @param {Element} next */
  take(next) {
    for (const id of ['checked', 'fields']) {
      const here = this.querySelector('#' + id);
      const there = next.querySelector('#' + id);
      if (here && there) morph(here, there);
    }
    // What was typed into is not what was sent as its attribute.
    for (const want of next.querySelectorAll('input[name], select[name], textarea[name]')) {
      const { name } = /** @type {HTMLInputElement} */ (want);
      const here = /** @type {HTMLInputElement | null} */ (this.querySelector(`[name="${CSS.escape(name)}"]`));
      const value = /** @type {HTMLInputElement} */ (want).value;
      if (!here || here.type === 'checkbox') continue;
      if (here.value === value || (here === document.activeElement && here.id !== 'yaml')) continue;
      const caret = here.id === 'yaml' ? here.selectionStart : null;
      here.value = value;
      if (caret !== null && here === document.activeElement) here.setSelectionRange(caret, caret);
    }
    for (const box of this.querySelectorAll('#fields input[type="checkbox"]')) /** @type {HTMLInputElement} */ (box).checked = false;
    this.say(this.dataset.checked || 'Checked');
  }

  /** @param {string} text */
  say(text) {
    const step = this.querySelector('#step');
    if (step && step.textContent !== text) step.textContent = text;
  }
}

customElements.define('bw-editor', BwEditor);
