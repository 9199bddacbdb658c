// axe-core in a page, asked for barriers that are serious or worse.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * It needs script in the page: axe waits by timers.
 * @param {import('playwright-core').Page} page
 * @param {string[]} [rules] only these; else all
 * @returns {Promise<{ violations: string[] }>}
 */
export async function strict(page, rules) {
  // evaluate goes through the debugger, so the content policy of the page stays in force.
  if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe);
  return page.evaluate(async (only) => {
    const { axe } = /** @type {any} */ (globalThis); // was just defined
    // A rule has one impact, so those that are never serious are not asked: they look long at whole pages.
    const low = axe._audit.rules.filter((/** @type {any} */ r) => ['minor', 'moderate'].includes(r.impact)).map((/** @type {any} */ r) => [r.id, { enabled: false }]);
    const { violations } = await axe.run(document, { resultTypes: ['violations'], selectors: false, ...(only ? { runOnly: only } : { rules: Object.fromEntries(low) }) });
    return { violations: violations.filter((/** @type {any} */ v) => ['serious', 'critical'].includes(v.impact))
      .map((/** @type {any} */ v) => `${v.id}: ${v.nodes.slice(0, 3).map((/** @type {any} */ n) => n.html.slice(0, 160)).join(' | ')}`) };
  }, rules);
}
