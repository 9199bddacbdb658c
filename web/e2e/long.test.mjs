// A tab that stays open: what updates leave behind, of memory, nodes and listeners. LONG=240 counts over so many of them,
// LONG=2000 is a day; without it only what takes seconds is run.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { base, launch, watched } from './browser.mjs';

const all = Number(process.env.LONG || 0);
const warm = Math.max(Math.floor(all / 10), 40);

/** @type {import('playwright-core').Browser} */
let browser;
let service = '';
let slo = '';
before(async () => {
  browser = await launch();
  const page = await browser.newPage();
  await page.goto(base + '/');
  service = await page.locator('.svc').first().getAttribute('href', { timeout: 5000 });
  await page.goto(base + '/slos');
  slo = await page.locator('main tbody th a').first().getAttribute('href', { timeout: 5000 });
  await page.close();
});
after(() => browser.close());

/**
 * What the tab holds once all that is garbage has gone.
 * @param {import('playwright-core').CDPSession} cdp
 */
async function held(cdp) {
  // Only a snapshot collects what scripts and the DOM hold of each other across their two heaps.
  await cdp.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
  await cdp.send('HeapProfiler.collectGarbage');
  const { nodes, jsEventListeners, documents } = await cdp.send('Memory.getDOMCounters');
  const { metrics } = await cdp.send('Performance.getMetrics');
  return { heap: metrics.find((m) => m.name === 'JSHeapUsedSize')?.value || 0, nodes, listeners: jsEventListeners, documents };
}

/**
 * Fetches the real fragment and morphs it in, n times. Each third time the page is first made another one, so that
 * charts go and come and cards change places, as they do in the course of a day.
 * @param {import('playwright-core').Page} page
 * @param {number} n
 */
const swap = (page, n) => page.evaluate(async (count) => {
  const live = /** @type {any} */ (document.querySelector('bw-live'));
  live.close(); // only these updates
  for (let i = 0; i < count; i++) {
    if (i % 3 === 0) {
      document.querySelectorAll('bw-chart, bw-heatmap').forEach((el, k) => (k + i) % 2 ? el.remove() : el.parentElement?.append(el));
      document.querySelectorAll('.services, tbody').forEach((list) => list.lastElementChild && list.prepend(list.lastElementChild));
    }
    await live.update();
    await new Promise((done) => requestAnimationFrame(done));
  }
}, n);

if (all) test('a tab left open does not grow', async (t) => {
  for (const path of ['/', service, slo]) {
    await t.test(path, async () => {
      const { context, page, sins } = await watched(browser);
      await page.goto(base + path);
      const cdp = await context.newCDPSession(page);
      await cdp.send('Performance.enable');
      await swap(page, all);
      const now = await held(cdp);
      // Compared with a tab that was just opened, since the page itself may have more to show than a while ago.
      const young = await context.newPage();
      await young.goto(base + path);
      const youngs = await context.newCDPSession(young);
      await youngs.send('Performance.enable');
      await swap(young, warm);
      await page.close();
      const before = await held(youngs);
      t.diagnostic(`${path}: ${warm} to ${all} updates: heap ${before.heap} to ${now.heap}, nodes ${before.nodes} to ${now.nodes}, listeners ${before.listeners} to ${now.listeners}`);
      assert.ok(now.nodes <= before.nodes * 1.05 + 200, `nodes grow from ${before.nodes} to ${now.nodes}`);
      assert.ok(now.listeners <= before.listeners + 40, `listeners grow from ${before.listeners} to ${now.listeners}`);
      assert.ok(now.documents <= before.documents + 2, `documents grow from ${before.documents} to ${now.documents}`);
      assert.ok(now.heap <= before.heap + 2 * 1024 * 1024, `the heap grows from ${before.heap} to ${now.heap} bytes`);
      assert.deepEqual(sins, []);
      await context.close();
    });
  }
});

// Each that left once kept the one before it by an exception's stack, and so all of them.
test('charts that come and go leave nothing behind', async (t) => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + service);
  const cdp = await context.newCDPSession(page);
  await cdp.send('Performance.enable');
  const counted = async () => {
    for (let i = 0; i < 3; i++) await cdp.send('HeapProfiler.collectGarbage');
    const { metrics } = await cdp.send('Performance.getMetrics');
    const of = (/** @type {string} */ name) => metrics.find((m) => m.name === name)?.value || 0;
    return { nodes: of('Nodes'), listeners: of('JSEventListeners') };
  };
  await swap(page, 12);
  const before = await counted();
  await swap(page, 48);
  const now = await counted();
  t.diagnostic(`nodes ${before.nodes} to ${now.nodes}, listeners ${before.listeners} to ${now.listeners}`);
  assert.ok(now.nodes <= before.nodes * 1.5 + 3000, `nodes grow from ${before.nodes} to ${now.nodes}`);
  assert.ok(now.listeners <= before.listeners + 20, `listeners grow from ${before.listeners} to ${now.listeners}`);
  assert.deepEqual(sins, []);
  await context.close();
});

test('going away and coming back leaves one stream', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/');
  await page.waitForSelector('#live.on');
  const cdp = await context.newCDPSession(page);
  await cdp.send('Performance.enable');
  const away = () => page.evaluate(async () => {
    for (let i = 0; i < 30; i++) {
      dispatchEvent(new Event('pagehide'));
      dispatchEvent(new Event('pageshow'));
      await new Promise((done) => setTimeout(done, 10));
    }
  });
  await away();
  const before = await held(cdp);
  await away();
  const now = await held(cdp);
  assert.ok(now.listeners <= before.listeners + 10, `listeners grow from ${before.listeners} to ${now.listeners}`);
  assert.ok(now.heap <= before.heap + 1024 * 1024, `the heap grows from ${before.heap} to ${now.heap} bytes`);
  await page.waitForSelector('#live.on'); // and it is live again
  assert.deepEqual(sins, []);
  await context.close();
});

test('the heat map keeps its cursor and its keys through an update', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + service);
  const map = page.locator('bw-heatmap svg.heat').first();
  const tip = page.locator('bw-heatmap .tip').first();
  const point = async () => { // an update of the page's own may come between the focus and the key
    for (let tries = 1; ; tries++) {
      await map.focus();
      await page.keyboard.press('ArrowLeft');
      try {
        return await tip.waitFor({ state: 'visible', timeout: 2000 });
      } catch (err) {
        if (tries === 10) throw err;
      }
    }
  };
  await point();
  await page.evaluate(() => /** @type {any} */ (document.querySelector('bw-live')).update());
  await point();
  assert.deepEqual(sins, []);
  await context.close();
});
