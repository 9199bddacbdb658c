// Every page in a real browser, against a running control: BASE_URL=http://127.0.0.1:8081 ADMIN_TOKEN=... node --test
// What is asserted holds for any house with at least one service; more where there is more to see.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { strict } from './axe.mjs';
import { adminHeaders, base, launch, watched } from './browser.mjs';
import { found, missing, pages, shown } from './pages.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
let service = '';
/** @type {import('./pages.mjs').Look[]} */
let looks = [];
before(async () => {
  browser = await launch();
  const f = await found(browser);
  service = f.service;
  looks = pages(f);
});
after(() => browser.close());

/** One page for those of admins, one for all others: a context costs more than a look. @param {import('playwright-core').BrowserContextOptions} [options] */
async function two(options) {
  const plain = await watched(browser, options);
  const admin = await watched(browser, { ...options, extraHTTPHeaders: adminHeaders });
  return {
    of: (/** @type {import('./pages.mjs').Look} */ l) => (l.admin ? admin : plain),
    close: async () => { await plain.context.close(); await admin.context.close(); },
  };
}

const allViews = process.env.VIEWS === 'all';
const every = /** @type {const} */ ([['light', 1440], ['dark', 390], ['dark', 1440], ['light', 390]]);
/** Rules of axe whose answer may be another one where the screen is narrow or dark. */
const seen = ['color-contrast', 'scrollable-region-focusable', 'button-name', 'link-name', 'label', 'select-name', 'summary-name', 'image-alt', 'svg-img-alt', 'aria-hidden-focus', 'nested-interactive'];

/** The heads of the tables of each page, as a browser with script has them. @type {Map<string, string[]>} */
const heads = new Map();

test('no page of the router is forgotten', () => {
  assert.ok(adminHeaders.Authorization, 'ADMIN_TOKEN must be given: pages of admins are looked at too');
  assert.deepEqual(missing(looks), [], 'pages that pages.mjs does not look at, or that this house has none of');
});

test('every page shows its content without an error or another host, and no serious barrier in either theme, wide or on a phone', async (t) => {
  const contexts = await two();
  for (const look of looks) {
    await t.test(look.name, async () => {
      const { page, sins } = contexts.of(look);
      sins.length = 0;
      const answer = await page.goto(base + look.path);
      assert.equal(answer?.status(), 200);
      // A phone has the same document: there it is asked about what depends on colour, size and what is to be seen at all.
      // VIEWS=all asks for everything in all four views. Each page begins with the view the one before it ended with: to
      // draw a page anew costs as much as to load it.
      const views = every.slice(0, allViews ? 4 : 2);
      if (page.viewportSize()?.width === 390) views.reverse();
      for (const [colorScheme, width] of views) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        if (colorScheme === 'light' && width === 1440) {
          if (look.chrome) await page.waitForFunction(() => document.querySelector('#live.on'), undefined, { timeout: 10_000, polling: 50 });
          const { unseen, heads: withScript } = await shown(page, look);
          assert.deepEqual(unseen, [], 'what is not to be seen');
          heads.set(look.name, withScript);
        }
        assert.deepEqual((await strict(page, width === 390 && !allViews ? seen : undefined)).violations, [], `${colorScheme}, ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `at ${width} the page is ${wide} px wider than the screen`);
        if (width === 390) { // names may have 63 letters
          const wider = await page.evaluate(() => {
            const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            for (let text = all.nextNode(); text; text = all.nextNode()) {
              text.nodeValue = (text.nodeValue || '').replace(/\b(order|points|inventory|coupon)\b/g, 'payments-and-settlement-reconciliation-for-the-european-region1');
            }
            return document.documentElement.scrollWidth - innerWidth;
          });
          assert.ok(wider <= 0, `with long names the page is ${wider} px wider than the screen`);
        }
      }
      assert.deepEqual(sins, []);
    });
  }
  await contexts.close();
});

test('every page reads without script: what it says, its tables, and its forms', async (t) => {
  const contexts = await two({ javaScriptEnabled: false });
  for (const look of looks) {
    await t.test(look.name, async () => {
      const { page, sins } = contexts.of(look);
      sins.length = 0;
      assert.equal((await page.goto(base + look.path))?.status(), 200);
      const { unseen, heads: without, rows, dead } = await shown(page, look);
      assert.deepEqual(unseen, [], 'what is not to be seen');
      // No table is made by script: the same document has them all. Rows come and go by themselves, tables do not.
      const withScript = heads.get(look.name) || [];
      assert.deepEqual(withScript.filter((h) => !without.includes(h)), [], 'tables that only script shows');
      if (withScript.length > 0) assert.ok(rows > 0, 'no row of any table');
      // Every form has an address and a button that sends it.
      assert.deepEqual(dead, []);
      assert.deepEqual(sins, []);
    });
  }
  await contexts.close();
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
