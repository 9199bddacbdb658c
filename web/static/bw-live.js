// <bw-live data-topics="ledger drills" data-stream="/api/v1/stream"> keeps what is inside it fresh: the stream says which
// topic changed, the page is fetched again as a fragment and morphed in. Without script the page is as it was asked for.
import { morph } from "./morph.js";

const pause = 1500; // at most one fetch in so many ms, however fast things change

class BwLive extends HTMLElement {
  connectedCallback() {
    this.last = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.stale = false;
    this.onShow = () => this.open();
    this.onHide = () => this.close();
    this.onVisible = () => document.visibilityState === 'visible' && this.stale && this.soon();
    addEventListener('pageshow', this.onShow);
    addEventListener('pagehide', this.onHide);
    document.addEventListener('visibilitychange', this.onVisible);
    this.open();
  }

  disconnectedCallback() {
    this.close();
    removeEventListener('pageshow', this.onShow);
    removeEventListener('pagehide', this.onHide);
    document.removeEventListener('visibilitychange', this.onVisible);
  }

  open() {
    if (this.source) return;
    const topics = new Set((this.dataset.topics || '').split(' '));
    const source = new EventSource(this.dataset.stream || '/api/v1/stream');
    this.source = source;
    source.addEventListener('hello', () => {
      this.say(this.dataset.live || 'Live', false);
      if (this.lost) this.soon(); // whatever was missed while away
      this.lost = false;
    });
    source.addEventListener('changed', (event) => {
      if (JSON.parse(event.data).topics.some((/** @type {string} */ t) => topics.has(t))) this.soon();
    });
    source.addEventListener('reset', () => this.soon());
    source.addEventListener('error', () => {
      this.lost = true;
      this.say(this.dataset.late || 'Not live, as of', true);
      // A refused stream is not tried again by the browser itself.
      if (source.readyState === EventSource.CLOSED) {
        this.close();
        setTimeout(() => this.isConnected && this.open(), 5000);
      }
    });
  }

  close() {
    this.source?.close();
    this.source = undefined;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** Asks for one update, as soon as the pause allows and somebody looks. */
  soon() {
    this.stale = true;
    if (this.timer !== undefined || document.visibilityState !== 'visible') return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.update();
    }, Math.max(0, this.last + pause - Date.now()));
  }

  async update() {
    this.stale = false;
    this.last = Date.now();
    const url = new URL(location.href);
    url.searchParams.set('fragment', '1');
    try {
      const answer = await fetch(url, { headers: { Accept: 'text/html' }, redirect: 'error' });
      const text = await answer.text();
      const next = new DOMParser().parseFromString(text, 'text/html').querySelector('bw-live');
      if (!next) return;
      const focused = document.activeElement;
      morph(this, next);
      if (focused instanceof HTMLElement && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
      if (!this.lost) this.say(this.dataset.live || 'Live', false);
    } catch {
      this.say(this.dataset.late || 'Not live, as of', true);
    }
  }

  /**
   * @param {string} word
   * @param {boolean} late
   */
  say(word, late) {
    const live = this.querySelector('#live');
    live?.classList.toggle('on', !late);
    live?.classList.toggle('late', late);
    const label = live?.querySelector('.asof');
    if (label && label.textContent !== word) label.textContent = word;
  }
}

customElements.define('bw-live', BwLive);
