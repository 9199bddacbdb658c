// Pages in Chinese, against a running control: BASE_URL=http://127.0.0.1:8081 node --test chinese.test.mjs
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { strict } from './axe.mjs';
import { base, launch, watched } from './browser.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const pages = ['/now', '/', '/slos', '/gate', '/gamedays', '/breakers', '/scenarios', '/menu'];

test('who prefers Chinese reads it, without a barrier, wide or on a phone', async (t) => {
  const { context, page, sins } = await watched(browser, { locale: 'zh-CN' });
  for (const path of pages) {
    await t.test(path, async () => {
      sins.length = 0;
      for (const [colorScheme, width] of /** @type {const} */ ([['light', 1440], ['dark', 390]])) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        assert.equal((await page.goto(base + path))?.status(), 200);
        assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN');
        assert.match(await page.locator('#stop-all').innerText(), /全部停止/);
        assert.match(await page.locator('main').innerText(), /\p{Script=Han}{2}/u);
        // The documents are those of pages.test.mjs in other words, so one look at each is enough.
        if (width === 390 || process.env.VIEWS === 'all') assert.deepEqual((await strict(page)).violations, [], `${colorScheme}, ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `at ${width} the page is ${wide} px wider than the screen`);
      }
      await page.waitForFunction(() => document.querySelector('#live .asof')?.textContent === '实时', undefined, { timeout: 10_000 });
      assert.deepEqual(sins, []);
    });
  }
  await context.close();
});

test('the language is chosen without script, and kept', async () => {
  const { context, page } = await watched(browser, { javaScriptEnabled: false, locale: 'de-DE' });
  await page.goto(base + '/menu');
  assert.equal(await page.locator('html').getAttribute('lang'), 'en', 'what nobody translated is English');
  await page.locator('main').getByText('中文').click();
  assert.equal(await page.locator('h1').first().innerText(), '菜单');
  await page.goto(base + '/slos');
  assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN', 'the choice holds on the next page');
  await page.goto(base + '/menu');
  await page.locator('main').getByText('English').click();
  assert.equal(await page.locator('h1').first().innerText(), 'Menu');
  await context.close();
});
