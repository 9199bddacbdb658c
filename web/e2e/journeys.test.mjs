// What people come for, from the first click to the answer, against a running demo.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { base, launch, watched } from './browser.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** @param {import('playwright-core').Page} page @param {RegExp} what */
const says = async (page, what) => assert.match(await page.locator('main').innerText(), what);

test('J1: a drill is chosen, weighed, planned, and reported', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/scenarios');
  await page.locator('main table tbody th a').first().click();
  await says(page, /At the traffic of the last/); // whom it would touch
  await page.locator('main a[href^="/experiments/new?from="]').first().click();
  await page.locator('button:has-text("Check")').first().click();
  await says(page, /Preflight/);
  await page.goto(base + '/gamedays');
  await says(page, /UTC/);
  assert.equal(await page.locator('main h1').innerText(), 'Game days');
  const feed = await page.request.get(base + await page.locator('main a[href$=".ics"]').first().getAttribute('href'));
  assert.match(await feed.text(), /^BEGIN:VCALENDAR/);
  await page.locator('main a[href^="/gamedays/g-"]').first().click();
  for (const part of ['Run of show', 'Roles and approvals', 'Guard', 'Timeline', 'Checklist']) {
    assert.ok(await page.locator(`main h2:has-text("${part}")`).isVisible(), `no ${part}`);
  }
  for (const [format, begins] of /** @type {const} */ ([['md', /^# /m], ['html', /<html/]])) {
    const report = await page.request.get(base + await page.locator(`main a[href$="report?format=${format}"]`).first().getAttribute('href'));
    assert.equal(report.status(), 200);
    assert.match(await report.text(), begins);
  }
  await page.goto(base + '/findings');
  assert.equal(await page.locator('main h1').innerText(), 'Findings');
  assert.deepEqual(sins, []);
  await context.close();
});

test('J2: on a phone, what is left and what is allowed is above the fold', async () => {
  const { context, page, sins } = await watched(browser, { viewport: { width: 390, height: 844 } });
  await page.goto(base + '/slos');
  await page.locator('main table tbody th a').first().click();
  await page.waitForSelector('#budget .huge');
  const at = await page.locator('#budget .huge').first().boundingBox();
  assert.ok(at && at.y + at.height <= 844, `the budget ends at ${at && at.y + at.height} px`);
  await says(page, /Who spent/i);
  assert.deepEqual(sins, []);
  await context.close();
});

test('J3: the page of the gate and the answer to a pipeline are one', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/gate');
  for (const row of await page.locator('main table').first().locator('tbody tr').all()) {
    const service = (await row.locator('th').innerText()).trim().split(/\s/)[0];
    const answer = await (await page.request.get(`${base}/api/v1/gate/decision?service=${service}`)).json();
    assert.match((await row.innerText()).toLowerCase(), new RegExp(answer.decision), `${service}: ${answer.decision}`);
  }
  assert.deepEqual(sins, []);
  await context.close();
});

test('J4: at 3 a.m., without script, in the dark, on a phone', async () => {
  const { context, page, sins } = await watched(browser, { javaScriptEnabled: false, colorScheme: 'dark', viewport: { width: 390, height: 844 } });
  await page.goto(base + '/now');
  const at = await page.locator('#answers').boundingBox();
  assert.ok(at && at.y < 844, 'the answers begin below the fold');
  await says(page, /Likely causes/);
  assert.ok(await page.locator('#stop-all').isVisible());
  assert.deepEqual(sins, []);
  await context.close();
});

test('J6: what is not set up yet is offered, what is, is told', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/setup');
  assert.equal(await page.locator('main h1').innerText(), 'Setup');
  for (const step of ['Where traffic is', 'The first promise', 'The first drill']) await says(page, new RegExp(step));
  assert.deepEqual(sins, []);
  await context.close();
});
