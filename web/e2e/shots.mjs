// Pictures of every page, light and dark, wide and on a phone: node shots.mjs DIR. To be looked at beside the mocks.
import { mkdir } from 'node:fs/promises';
import { base, launch } from './browser.mjs';

const dir = process.argv[2] || 'shots';
const only = process.argv[3];
await mkdir(dir, { recursive: true });
const browser = await launch();
const pages = { now: '/now', overview: '/', slos: '/slos', alerts: '/alerts?view=all', silences: '/alerts?view=silences', breakers: '/breakers', retries: '/retries', table: '/?view=table', service: process.env.SERVICE || '/services/order', gamedays: '/gamedays', gameday: '/gamedays/weekly-small-drill', findings: '/findings', readiness: '/readiness', runs: '/runs', scenarios: '/scenarios', scenario: '/scenarios/control-run-0', editor: '/experiments/new?from=control-run-0', setup: '/setup', gate: '/gate', menu: '/menu' };

const first = await browser.newPage();
await first.goto(base + '/runs');
const run = await first.locator('main tbody a[href^="/runs/"]').first().getAttribute('href', { timeout: 2000 }).catch(() => null);
if (run) pages.run = run;
await first.goto(base + '/slos');
const slo = await first.locator('main tbody th a').first().getAttribute('href', { timeout: 2000 }).catch(() => null);
if (slo) pages.slo = slo;
await first.close();

for (const [name, path] of Object.entries(pages)) {
  if (only && !only.split(',').includes(name)) continue;
  for (const scheme of ['light', 'dark']) {
    for (const width of [1440, 390]) {
      const context = await browser.newContext({ viewport: { width, height: width === 390 ? 844 : 1000 }, colorScheme: /** @type {'light' | 'dark'} */ (scheme), deviceScaleFactor: 1 });
      const page = await context.newPage();
      await page.goto(base + path);
      await page.waitForTimeout(400); // charts are drawn after load
      await page.screenshot({ path: `${dir}/${name}-${scheme}-${width}.png`, fullPage: true });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) console.log(`${name} ${scheme} ${width}: ${wide} px too wide`);
      await context.close();
    }
  }
}
await browser.close();
