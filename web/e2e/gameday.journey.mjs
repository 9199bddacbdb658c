// J1 whole, in compressed time, against a running demo: a scenario is planned each week by clicks, a second person agrees to
// it, it is held, its report is read, what it found is mended and shown to be gone. It takes some four minutes, so it is none
// of the usual tests: .ci/with-demo 20 node --test web/e2e/gameday.journey.mjs
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { strict } from './axe.mjs';
import { adminHeaders, base, launch, says as pageSays, watched } from './browser.mjs';

const config = process.env.CONFIG || '';
/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const scenario = `apiVersion: breakwater/v1
kind: Scenario
id: journey-inventory
title: One read of inventory in five is answered 500
target: {service: inventory, routes: [inventory-get]}
sample: {percent: "20%", key: attempt, seed: auto}
phases: {baseline: 10s, inject: 25s, recover: 5s}
faults:
  - {id: broken, error: {status: 500}}
hypothesis:
  steady:
    - {id: s1, sli: inventory.success, op: ">=", value: "95%"}
  during:
    - {id: d1, sli: inventory.error_rate, op: "<=", value: "4%"}
  after:
    - {id: a1, sli: inventory.success, op: ">=", value: "95%", window: 5s, within: 1m}
stop:
  - {sli: inventory.error_rate, op: ">", value: "60%", for: 15s}
on_fail: {finding: {severity: high, owner: team-inventory, due: 14d}}
accept: [cost, no_fallback, no_match, alerts_away, no_baseline]
`;

/** Looks again until it is so. @param {string} what @param {() => Promise<boolean>} ok @param {number} seconds */
async function until(what, ok, seconds) {
  for (const end = Date.now() + seconds * 1000; !(await ok()); await new Promise((r) => setTimeout(r, 500))) {
    assert.ok(Date.now() < end, `after ${seconds} s still not: ${what}`);
  }
}

test('J1: planned, agreed to, held, reported, mended, shown to be gone', async () => {
  const { context, page, sins } = await watched(browser); // an operator, as the demo lets its own machine in
  const says = (/** @type {RegExp} */ what) => pageSays(page, what);
  const sound = async (/** @type {string} */ where) => {
    for (const [scheme, width] of /** @type {const} */ ([['light', 1440], ['dark', 1440], ['dark', 390], ['light', 390]])) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      assert.deepEqual((await strict(page)).violations, [], `${where}, ${scheme}, ${width}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 0, `${where} is too wide at ${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 1000 });
  };

  writeFileSync(join(config, 'journey.yaml'), scenario);
  await until('control takes the scenario in', async () => (await page.request.get(base + '/scenarios/journey-inventory')).status() === 200, 20);
  const due = new Date(Date.now() + 150_000);
  const at = due.toISOString().slice(11, 16);
  await page.goto(`${base}/scenarios/journey-inventory?day=${due.getUTCDay()}&at=${at}&zone=UTC`);
  await says(/At the traffic of the last/); // whom it would touch
  assert.equal(await page.locator('#plan select[name=at]').inputValue(), at);
  await page.locator('#plan select[name=approval]').selectOption('1');
  await sound('the scenario, with the form of its plan');
  await page.locator('#plan button').click();
  await says(/It is planned each week/);

  // Another person is made, signs in, and agrees.
  const admin = await watched(browser, { extraHTTPHeaders: adminHeaders });
  const name = 'dora' + Date.now() % 1e6;
  await admin.page.goto(base + '/admin/');
  await admin.page.locator('form[action="/admin/users"] input[name=name]').fill(name);
  await admin.page.locator('form[action="/admin/users"] select[name=role]').selectOption('approver');
  await admin.page.locator('form[action="/admin/users"] button').click();
  const first = await admin.page.locator('code.secret').innerText();
  const dora = await watched(browser);
  await dora.page.goto(base + '/signin?next=/gamedays');
  await dora.page.locator('input[name=name]').fill(name);
  await dora.page.locator('input[name=password]').fill(first);
  await dora.page.locator('button.key').click();
  await dora.page.locator('input[name=present]').fill(first);
  await dora.page.locator('input[name=new]').fill('four words are enough');
  await dora.page.locator('input[name=again]').fill('four words are enough');
  await dora.page.locator('button.key').click();
  const day = dora.page.locator('main a:has-text("One read of inventory in five")').first();
  await until('the game day waits for somebody to agree', async () => {
    await dora.page.goto(base + '/gamedays');
    return await dora.page.locator('.acts a:has-text("One read of inventory in five")').count() > 0;
  }, 60);
  await day.click();
  await dora.page.locator('#approve').click();
  assert.match(await dora.page.locator('#people').innerText(), new RegExp(name));
  const held = new URL(dora.page.url()).pathname;

  // It begins by itself, at its time, and is watched.
  await page.goto(base + held);
  await sound('the game day, agreed to');
  await until('the run ends', async () => {
    await page.goto(base + held);
    return /failed/i.test(await page.locator('#show').innerText());
  }, 400);
  await sound('the game day, held');
  await page.locator('#show tbody th a').first().click();
  await says(/Expected and seen/);
  await sound('the run');
  const report = await page.request.get(base + await (async () => { await page.goto(base + held); return page.locator('a[href$="report?format=md"]').first().getAttribute('href'); })());
  assert.match(await report.text(), /inventory/);
  assert.match(await report.text(), /failed/i);

  // What it found is mended in the documents, said, and looked at again.
  await until('the finding stands', async () => {
    await page.goto(base + '/findings');
    return await page.locator('main tbody tr').filter({ hasText: 'journey-inventory' }).count() > 0;
  }, 30);
  await sound('the findings');
  await page.locator('main tbody tr').filter({ hasText: 'journey-inventory' }).locator('a[href^="/findings/"]').first().click();
  const finding = page.url();
  await sound('the finding');
  const gateway = join(config, 'gateway.yaml');
  const was = readFileSync(gateway, 'utf8');
  writeFileSync(gateway, was.replaceAll('retry_on_status: [502, 503, 504]', 'retry_on_status: [500, 502, 503, 504]'));
  await page.locator('textarea[name=note]').fill('500 is tried again, once more at most');
  await page.locator('#close').click();
  await says(/claimed|mended/i);
  await until('the gateway serves it', async () => {
    await admin.page.goto(base + '/admin/config');
    return /gateway/.test(await admin.page.locator('#documents tbody tr').first().locator('td').nth(4).innerText());
  }, 30);
  await page.goto(base + '/scenarios/journey-inventory');
  await page.locator('button:has-text("Run now")').click();
  await until('the second run passes', async () => {
    await page.reload();
    return /passed/i.test(await page.locator('main .head').innerText());
  }, 180);
  await until('the finding is closed by it', async () => {
    await page.goto(finding);
    return /verified/i.test(await page.locator('#evidence').innerText());
  }, 60);
  await sound('the finding, verified');
  writeFileSync(gateway, was);
  assert.deepEqual([...sins, ...dora.sins, ...admin.sins], []);
  for (const x of [context, dora.context, admin.context]) await x.close();
});
