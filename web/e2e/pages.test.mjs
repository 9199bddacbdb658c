// Every page in a real browser, against a running control: BASE_URL=http://127.0.0.1:8081 node --test
// What is asserted holds for any house with at least one service; more where there is more to see.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { base, launch, watched } from './browser.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** @type {import('playwright-core').Browser} */
let browser;
let service = '';
let run = '';
let slo = '';
before(async () => {
  browser = await launch();
  const page = await browser.newPage();
  await page.goto(base + '/');
  service = await page.locator('.svc').first().getAttribute('href', { timeout: 5000 });
  await page.goto(base + '/slos');
  slo = await page.locator('main tbody th a').first().getAttribute('href', { timeout: 5000 });
  await page.goto(base + '/runs');
  run = await page.locator('main tbody th a').first().getAttribute('href', { timeout: 1000 }).catch(() => '');
  await page.close();
});
after(() => browser.close());

/** What each page must say, script or not. */
const pages = () => [
  { name: 'overview', path: '/', has: ['main h1:has-text("Overview")', '.tiles .tile', '.svc', '.svc .bar'] },
  { name: 'overview as a table', path: '/?view=table', has: ['main table tbody tr'] },
  { name: 'service', path: service, has: ['#budget .huge', '#budget .bar', '#explain table tbody tr', 'bw-chart figure', '#latency', '#around', '#recent'] },
  { name: 'now', path: '/now', has: ['#answers .huge', 'main h2:has-text("Likely causes")', 'main h2:has-text("All services")', '#explain table tbody tr'] },
  { name: 'SLOs', path: '/slos', has: ['main table tbody tr .chip', 'main table .bar'] },
  { name: 'SLO', path: slo, has: ['#budget .huge', '#who-spent', '#whatif select', 'bw-chart figure', '#explain table tbody tr'] },
  { name: 'SLO, what if', path: slo + (slo.includes('?') ? '&' : '?') + 'target=99.5&window=7d', has: ['#whatif table tbody tr'] },
  { name: 'breakers', path: '/breakers', has: ['#bands svg.lanes rect', '#now table tbody tr', '#limits table tbody tr', 'main h2:has-text("Transitions")'] },
  { name: 'retries', path: '/retries', has: ['#facts .big', '#routes tbody tr', 'bw-chart figure', '#fates', '#explain table tbody tr'] },
  { name: 'alerts', path: '/alerts?view=all', has: ['.tabs a', 'main h2:has-text("Incidents")'] },
  { name: 'silences', path: '/alerts?view=silences', has: ['main h2:has-text("Silences")'] },
  { name: 'find', path: '/find?q=' + encodeURIComponent(service.split('/').pop() || ''), has: ['.found a'] },
  { name: 'game days', path: '/gamedays', has: ['main h1:has-text("Game days")'] },
  { name: 'scenarios', path: '/scenarios', has: ['main h1:has-text("Scenarios")', 'main table tbody tr', 'main .filter select'] },
  { name: 'scenario', path: '/scenarios/control-run-0', has: ['#preflight .chip', 'main h2:has-text("Hypothesis")', 'main h2:has-text("Runs")'] },
  { name: 'editor', path: '/experiments/new?from=control-run-0', has: ['#yaml', '#fields input', '#checked .chip'] },
  { name: 'setup', path: '/setup', has: ['.steps li', 'main h2, main h3'] },
  { name: 'runs', path: '/runs', has: ['main h1:has-text("Runs")'] },
  { name: 'gate', path: '/gate', has: ['main table tbody tr', 'text=breakwater gate'] },
  { name: 'findings', path: '/findings', has: ['main h1:has-text("Findings")'] },
  { name: 'readiness', path: '/readiness', has: ['main h1:has-text("Readiness")', 'main table tbody tr'] },
  { name: 'requests', path: '/requests', has: ['main h1:has-text("Requests")', 'main form.filter, main form'] },
  { name: 'simulator', path: '/simulator', has: ['main h1:has-text("Simulator")', 'main textarea'] },
  { name: 'menu', path: '/menu', has: ['.menu a'] },
  ...(run ? [{ name: 'run', path: run, has: ['.phases .phase', 'main h2:has-text("Expected and seen")'] }] : []),
];

test('every page shows its content, without an error and without another host', async (t) => {
  for (const { name, path, has } of pages()) {
    await t.test(name, async () => {
      const { context, page, sins } = await watched(browser);
      const answer = await page.goto(base + path);
      assert.equal(answer?.status(), 200);
      for (const selector of has) assert.ok(await page.locator(selector).first().isVisible(), `${selector} is not to be seen`);
      assert.ok(await page.locator('#stop-all').isVisible(), 'Stop all is on every page');
      await page.waitForFunction(() => document.querySelector('#live.on'), undefined, { timeout: 5000 });
      assert.deepEqual(sins, []);
      await context.close();
    });
  }
});

test('every page reads without script', async (t) => {
  for (const { name, path, has } of pages()) {
    await t.test(name, async () => {
      const { context, page, sins } = await watched(browser, { javaScriptEnabled: false });
      await page.goto(base + path);
      for (const selector of has) assert.ok(await page.locator(selector).first().isVisible(), `${selector} is not to be seen`);
      assert.ok(await page.locator('#stop-all').isVisible());
      assert.deepEqual(sins, []);
      await context.close();
    });
  }
});

test('no serious barrier in light or dark, wide or on a phone', async (t) => {
  for (const { name, path } of pages()) {
    for (const [colorScheme, width] of /** @type {const} */ ([['light', 1440], ['dark', 390]])) {
      await t.test(`${name}, ${colorScheme}, ${width}`, async () => {
        const { context, page } = await watched(browser, { colorScheme, viewport: { width, height: 900 } });
        await page.goto(base + path);
        // evaluate goes through the debugger, so the content policy of the page stays in force.
        await page.evaluate(axe);
        const found = await page.evaluate(async () => {
          // @ts-ignore axe was just defined
          const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] });
          return violations.filter((v) => ['serious', 'critical'].includes(v.impact))
            .map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`);
        });
        assert.deepEqual(found, []);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `the page is ${wide} px wider than the screen`);
        await context.close();
      });
    }
  }
});

test('the content policy is in force', async () => {
  const { context, page } = await watched(browser);
  await page.goto(base + '/');
  const ran = await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'globalThis.ran = true';
    document.head.append(script);
    return /** @type {any} */ (globalThis).ran === true;
  });
  assert.equal(ran, false);
  await context.close();
});

test('the chart has a cursor for the keyboard and a table for everybody', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + service);
  const chart = page.locator('bw-chart').first();
  if (await chart.count() === 0) return context.close(); // a service without one counted minute
  await page.waitForFunction(() => document.querySelector('bw-chart[data-on] canvas'), undefined, { timeout: 5000 });
  assert.ok(!(await chart.locator('svg.chart').isVisible()), 'SVG and canvas are both there');
  await chart.locator('.plot').focus();
  await page.keyboard.press('ArrowLeft');
  const tip = chart.locator('.tip');
  await tip.waitFor({ state: 'visible', timeout: 2000 });
  const first = await tip.innerText();
  assert.match(first, /Budget left/);
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction((was) => /** @type {HTMLElement} */ (document.querySelector('.tip')).innerText !== was, first, { timeout: 2000 });
  await page.keyboard.press('Escape');
  await tip.waitFor({ state: 'hidden', timeout: 2000 });
  await chart.locator('summary').click();
  assert.ok(await chart.locator('tbody tr').first().isVisible());
  assert.deepEqual(sins, []);
  await context.close();
});

test('an update keeps focus, open details and scroll', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + service);
  await page.waitForFunction(() => document.querySelector('#live.on'));
  await page.locator('details.data summary').first().click();
  await page.locator('a[href="#explain"]').focus();
  await page.evaluate(() => {
    scrollTo(0, 300);
    /** @type {any} */ (document.querySelector('#budget .huge')).mark = 'same node';
    /** @type {HTMLElement} */ (document.querySelector('#live time')).textContent = 'long ago';
  });
  await page.evaluate(() => /** @type {any} */ (document.querySelector('bw-live')).update());
  await page.waitForFunction(() => document.querySelector('#live time')?.textContent !== 'long ago', undefined, { timeout: 5000 });
  const kept = await page.evaluate(() => ({
    scroll: Math.round(scrollY), open: /** @type {HTMLDetailsElement} */ (document.querySelector('details.data')).open,
    focus: document.activeElement?.getAttribute('href'), node: /** @type {any} */ (document.querySelector('#budget .huge')).mark,
  }));
  assert.deepEqual(kept, { scroll: 300, open: true, focus: '#explain', node: 'same node' });
  assert.deepEqual(sins, []);
  await context.close();
});

test('the theme needs no script', async () => {
  const { context, page } = await watched(browser, { javaScriptEnabled: false, colorScheme: 'light' });
  await page.goto(base + '/?theme=dark');
  await page.goto(base + '/runs');
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  await page.goto(base + '/?theme=system');
  assert.equal(await page.locator('html').getAttribute('data-theme'), null);
  await context.close();
});
