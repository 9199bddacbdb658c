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
    // @ts-ignore axe was just defined
    const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'], ...(only ? { runOnly: only } : {}) });
    return { violations: violations.filter((/** @type {any} */ v) => ['serious', 'critical'].includes(v.impact))
      .map((/** @type {any} */ v) => `${v.id}: ${v.nodes.slice(0, 3).map((/** @type {any} */ n) => n.html.slice(0, 160)).join(' | ')}`) };
  }, rules);
}
