// Changes one tree of nodes into another in place. What is the same stays the same node, so focus, scroll, selection,
// open <details> and the insides of charts outlive an update.

/** Attributes that belong to the reader or to a script, not to the server. */
const own = new Set(['open', 'data-on', 'data-keys', 'tabindex']);

/** @param {Node} node */
const keyOf = (node) => (node instanceof Element && (node.id || node.getAttribute('data-key'))) || '';

/**
 * @param {Node} a
 * @param {Node} b
 */
const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

/**
 * @param {Element} a the node on the page
 * @param {Element} b what it shall become
 */
export function morph(a, b) {
  if (a.hasAttribute('data-keep')) return;
  for (const { name, value } of b.attributes) {
    if (!own.has(name) && a.getAttribute(name) !== value) a.setAttribute(name, value);
  }
  for (const { name } of [...a.attributes]) {
    if (!own.has(name) && !b.hasAttribute(name)) a.removeAttribute(name);
  }
  children(a, b);
}

/**
 * @param {Element} a
 * @param {Element} b
 */
function children(a, b) {
  /** @type {Map<string, ChildNode>} */
  const keyed = new Map();
  for (const child of a.childNodes) {
    const key = keyOf(child);
    if (key) keyed.set(key, child);
  }
  let here = a.firstChild;
  for (const want of [...b.childNodes]) {
    const key = keyOf(want);
    let found = key ? keyed.get(key) : here;
    if (found && !alike(found, want)) found = undefined;
    if (!found) {
      a.insertBefore(document.importNode(want, true), here);
      continue;
    }
    if (found !== here) a.insertBefore(found, here);
    here = found.nextSibling;
    if (want instanceof Element) morph(/** @type {Element} */ (found), want);
    else if (found.nodeValue !== want.nodeValue) found.nodeValue = want.nodeValue;
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}
