// Without a mouse: every link, button and field is reached by Tab and shows that it is; the keys of the header; and
// what a wall, forced colours and a wish for contrast do.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { base, launch, watched } from './browser.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('Tab reaches everything that can be used, and shows where it is', async (t) => {
  for (const path of ['/', '/gate', '/alerts?view=silences', '/scenarios/control-run-0', '/setup']) {
    await t.test(path, async () => {
      const { context, page, sins } = await watched(browser);
      await page.goto(base + path);
      await page.evaluate(() => /** @type {any} */ (document.querySelector('bw-live')).close()); // nothing moves meanwhile
      await page.keyboard.press('Tab');
      assert.equal(await page.evaluate(() => document.activeElement?.className), 'skip', 'the first stop is the skip link');
      assert.ok((await page.locator('.skip').boundingBox())?.x ?? -1 >= 0, 'the skip link is seen when it has the focus');
      const { reached, blind } = await page.evaluate(() => {
        const usable = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((el) => el instanceof HTMLElement && el.tabIndex >= 0 &&
          !el.hasAttribute('disabled') && el.checkVisibility({ checkVisibilityCSS: true }) && /** @type {HTMLInputElement} */ (el).type !== 'hidden');
        /** @type {string[]} */
        const unseen = [];
        for (const el of usable) {
          /** @type {HTMLElement} */ (el).focus({ focusVisible: true });
          const shown = [el, el.closest('.find')].some((x) => x && parseFloat(getComputedStyle(x).outlineWidth) >= 2 && getComputedStyle(x).outlineStyle !== 'none');
          if (document.activeElement !== el || !shown) unseen.push(el.outerHTML.slice(0, 90));
        }
        /** @type {HTMLElement} */ (usable[0]).focus();
        /** @type {any} */ (window).usable = new Set(usable.filter((el) => /** @type {HTMLInputElement} */ (el).type !== 'radio'));
        /** @type {any} */ (window).usable.delete(usable[0]);
        return { reached: usable.length, blind: unseen };
      });
      assert.deepEqual(blind, [], 'what has the focus shows it');
      assert.ok(reached > 20);
      for (let i = 0; i < reached + 10; i++) {
        await page.keyboard.press('Tab');
        if (!await page.evaluate(() => { /** @type {any} */ (window).usable.delete(document.activeElement); return /** @type {any} */ (window).usable.size; })) break;
      }
      assert.deepEqual(await page.evaluate(() => [.../** @type {any} */ (window).usable].map((el) => el.outerHTML.slice(0, 90))), [], 'Tab alone comes to each');
      assert.deepEqual(sins, []);
      await context.close();
    });
  }
});

test('keys lead to find, to Stop all, and from page to page', async () => {
  const { context, page } = await watched(browser);
  await page.goto(base + '/');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('name')), 'q');
  await page.locator('main').focus();
  await page.keyboard.press('Shift+S');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'stop-all');
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  await page.waitForURL('**/breakers');
  await context.close();
});

test('the list of keys opens with ?, holds the focus, and Escape closes it and gives the focus back', async () => {
  const { context, page } = await watched(browser);
  await page.goto(base + '/slos');
  const list = page.getByRole('dialog', { name: 'Keys' });
  assert.equal(await list.isVisible(), false);
  const opener = page.getByRole('button', { name: 'Keys' });
  await opener.focus();
  await page.keyboard.press('?');
  assert.equal(await list.isVisible(), true);
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Close');
  await page.keyboard.press('Escape');
  assert.equal(await list.isVisible(), false);
  assert.equal(await opener.evaluate((el) => el === document.activeElement), true);
  await page.keyboard.press('Enter'); // the button needs no script
  assert.equal(await list.isVisible(), true);
  await context.close();
});

test('a wall shows no way to click but Stop, forced colours keep their shapes, and contrast can be had', async () => {
  const { context, page } = await watched(browser);
  await page.goto(base + '/?tv=1');
  assert.equal(await page.locator('.nav').isVisible(), false);
  assert.equal(await page.locator('#stop-all').isVisible(), true);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.emulateMedia({ forcedColors: 'active' });
  await page.goto(base + '/');
  assert.notEqual(await page.locator('.svc .chip').first().evaluate((el) => getComputedStyle(el).borderTopStyle), 'none');
  await page.emulateMedia({ forcedColors: 'none', contrast: 'no-preference' });
  const ink = () => page.locator('.svc .small, .svc .tiny').first().evaluate((el) => getComputedStyle(el).color);
  const usual = await ink();
  await page.emulateMedia({ contrast: 'more' });
  assert.notEqual(await ink(), usual, 'whoever asks for more contrast gets it');
  await context.close();
});
