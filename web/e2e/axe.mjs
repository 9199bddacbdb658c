// axe-core in a page, asked for barriers that are serious or worse.
import assert from 'node:assert/strict';
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

/**
 * A page that a journey passes: no barrier in either theme, wide or on a phone, and no wider than the screen. VIEWS=all: in all four views.
 * @param {import('playwright-core').Page} page @param {string} where
 */
export async function sound(page, where) {
  for (const [scheme, width] of /** @type {const} */ ([['light', 1440], ['dark', 390], ['dark', 1440], ['light', 390]].slice(0, process.env.VIEWS === 'all' ? 4 : 2))) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual((await strict(page)).violations, [], `${where}, ${scheme}, ${width}`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 0, `${where} is too wide at ${width}`);
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1440, height: 1000 });
}
