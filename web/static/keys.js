// Keys: / finds, g then a letter goes, Shift+S puts the focus on Stop all, ? lists them. They never act while somebody types.
const places = { n: '/now', o: '/', s: '/slos', r: '/runs', d: '/gamedays', f: '/gate', b: '/breakers', a: '/alerts' };
let going = 0;

addEventListener('keydown', (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, select, textarea, [data-keys]')) return;
  if (event.key === '/') {
    event.preventDefault();
    /** @type {HTMLInputElement | null} */ (document.querySelector('.find input'))?.focus();
  } else if (event.key === 'S') {
    document.getElementById('stop-all')?.focus();
  } else if (event.key === '?') {
    document.getElementById('keys')?.togglePopover();
  } else if (event.key === 'g') {
    going = Date.now();
  } else if (event.key in places && Date.now() - going < 1500) {
    location.assign(places[/** @type {keyof typeof places} */ (event.key)]);
  }
});
