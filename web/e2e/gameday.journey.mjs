// J1 whole, in compressed time, against a running demo and by clicks alone: from the overview to a scenario, its preview and
// its plan with guards; people are reminded in their chat; a day whose guard fails is skipped; one is agreed to, held, watched
// and reported; a run is aborted; what was found is mended, and the next day looks at it again by itself. TestUX_J1 of
// cmd/breakwater drives it; by hand: .ci/with-demo 20 node --test web/e2e/gameday.journey.mjs
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { sound } from './axe.mjs';
import { adminHeaders, base, faultWentOn, launch, menu, person, saved, says, until, watched } from './browser.mjs';

const config = process.env.CONFIG || '';
const installed = Number(process.env.INSTALLED) || Date.now(); // when the demo was started, where somebody says so
/** @type {import('playwright-core').Browser} */
let browser;
/** The channel: what was posted into it. @type {string[]} */
const channel = [];
const chat = createServer((q, answer) => {
  let text = '';
  q.on('data', (part) => { text += part; });
  q.on('end', () => { channel.push(JSON.parse(text).text); answer.end('ok'); });
});
before(async () => { browser = await launch(); await new Promise((ready) => chat.listen(0, '127.0.0.1', () => ready(undefined))); });
after(async () => { await browser.close(); chat.close(); });

/** The repository of whoever uses it: three scenarios, and who is told. @param {string} id @param {string} title @param {string} service @param {string} route @param {string} percent @param {string} inject */
const scenario = (id, title, service, route, percent, inject) => `apiVersion: breakwater/v1
kind: Scenario
id: ${id}
title: ${title}
target: {service: ${service}, routes: [${route}]}
sample: {percent: "${percent}", key: attempt, seed: auto}
phases: {baseline: 10s, inject: ${inject}, recover: 5s}
faults:
  - {id: broken, error: {status: 500}}
hypothesis:
  steady:
    - {id: s1, sli: ${service}.success, op: ">=", value: "90%"}
  during:
    - {id: d1, sli: ${service}.error_rate, op: "<=", value: "4%"}
  after:
    - {id: a1, sli: ${service}.success, op: ">=", value: "90%", window: 5s, within: 1m}
stop:
  - {sli: ${service}.error_rate, op: ">", value: "60%", for: 15s}
on_fail: {finding: {severity: high, owner: team-${service}, due: 14d}}
accept: [cost, no_fallback, no_match, alerts_away, no_baseline, overlap]
`;
const held = 'One read of inventory in five is answered 500', spent = 'Points answers 500 now and then', aborted = 'Some reads of orders are answered 500';

/** From the menu to the page of a scenario that is there. @param {import('playwright-core').Page} page @param {string} title */
async function opens(page, title) {
  await menu(page, 'Scenarios');
  const link = page.locator('main tbody th a', { hasText: title });
  await until(`control has taken in "${title}"`, async () => await link.count() > 0 || !(await page.reload()), 30);
  await link.click();
  await says(page, /What breaks/);
}

/** @param {import('playwright-core').Page} page @param {Date} due */
async function plans(page, due) {
  const plan = page.locator('#plan');
  await plan.locator('select[name=day]').selectOption(String(due.getUTCDay()));
  await plan.locator('input[name=zone]').fill('UTC');
  assert.equal(await plan.locator('select[name=left]').inputValue(), '30%'); // as is usual
  assert.equal(await plan.locator('select[name=office]').inputValue(), '1');
  await plan.locator('input[name=at]').fill('03:07');
  await plan.locator('select[name=approval]').selectOption('1');
  await plan.locator('button').click();
  await says(page, /It would never begin/); // in office hours it would not, and what was chosen is still there
  assert.equal(await plan.locator('input[name=at]').inputValue(), '03:07');
  await plan.locator('input[name=at]').fill(due.toISOString().slice(11, 16));
  await plan.locator('select[name=office]').selectOption('0');
  await plan.locator('button').click();
  await says(page, /It is planned each week/);
}

/** The game day that is open, by the list of those that are. @param {import('playwright-core').Page} page */
async function openDay(page) {
  await menu(page, 'Game days');
  const link = page.locator('.acts a', { hasText: 'Weekly: ' + held });
  await until('the game day is announced', async () => await link.count() > 0 || !(await page.reload()), 30);
  await link.first().click();
  await says(page, /Run of show/);
}

test('J1: planned with guards, reminded of, skipped or held, aborted, reported, mended, looked at again', async () => {
  const began = Date.now();
  writeFileSync(join(config, 'journey.yaml'), [
    scenario('journey-inventory', held, 'inventory', 'inventory-get', '20%', '20s'),
    scenario('journey-points', spent, 'points', 'points-balance', '5%', '25s'),
    scenario('journey-order', aborted, 'order', 'order-get', '10%', '5m'),
    `apiVersion: breakwater/v1\nkind: AlertRoute\nname: journey\nservices: [inventory]\nto:\n  - {type: slack, name: chat, url: "http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (chat.address()).port}/", allow_private: true}\n`,
  ].join('---\n'));
  const { context, page, sins } = await watched(browser); // an operator, as the demo lets its own machine in
  const admin = await watched(browser, { extraHTTPHeaders: adminHeaders });
  for (const x of [page, admin.page]) await x.goto(base + '/'); // the only addresses that anybody types

  // A scenario is chosen and weighed, and planned with its guards.
  await opens(page, held);
  await until('traffic is known', async () => /At the traffic of the last/.test(await page.locator('#preflight').innerText()) || !(await page.reload()), 60);
  await sound(page, 'the scenario, with the form of its plan');
  const due = new Date(Math.ceil((Date.now() + 50_000) / 60_000) * 60_000);
  await plans(page, due);
  const planned = Date.now();
  await opens(page, spent);
  await plans(page, due);
  await menu(page, 'Game days');
  const card = page.locator('section.plan', { hasText: 'Weekly: ' + held });
  assert.match(await card.innerText(), /More than 30.% of the budget is left; nothing it aims at is frozen, and no alert of level L1/);
  assert.match(await page.locator('section.plan', { hasText: 'Weekly: ' + spent }).innerText(), /more than 30.% must be left|points is frozen/); // known beforehand
  const feed = await saved(page, page.locator('main a[href$=".ics"]'));
  assert.match(feed.name, /\.ics$/);
  assert.match(feed.text, /^BEGIN:VCALENDAR[^]*SUMMARY:Weekly: One read of inventory/);

  // People hear of it, another person agrees; meanwhile a run of something else is begun by hand, and aborted.
  const dora = await person(browser, 'approver');
  const agreed = (async () => {
    await openDay(dora.page);
    await dora.page.locator('#approve').click();
    await says(dora.page, /Your approval counts/);
    assert.match(await dora.page.locator('#people').innerText(), new RegExp(dora.name));
    assert.match(await dora.page.locator('#timeline').innerText(), /begins at [^]*approvals missing: 1/);
    await sound(dora.page, 'the game day, agreed to');
    await menu(admin.page, 'Audit');
    await admin.page.locator('main .tabs a', { hasText: 'Deliveries' }).click();
    const row = admin.page.locator('main tbody tr', { hasText: 'journey/chat' });
    await until('the reminder has arrived', async () => /arrived|told|delivered|sent/i.test(await row.innerText()) && Number(await row.locator('td').nth(1).innerText()) > 0 || !(await admin.page.reload()), 30);
    assert.match(channel.join('\n'), /game day Weekly: One read of inventory in five is answered 500 .* begins at .*approvals missing/);
  })();
  const took = await (async () => {
    await opens(page, aborted);
    await page.locator('button:has-text("Run now")').click();
    await page.locator('form[action$="/abort"] button').waitFor();
    await until('the fault is on', async () => /injecting/i.test(await page.locator('main .head .chip').innerText()) || !(await page.reload()), 60);
    const clicked = performance.now();
    const answer = page.waitForResponse((x) => x.request().method() === 'POST' && x.url().endsWith('/abort')).then((x) => ({ status: x.status(), ms: performance.now() - clicked }));
    await page.locator('button:has-text("Abort run")').click();
    await page.waitForFunction(() => /abort(ed|ing)/i.test(document.querySelector('main .head .chip')?.textContent || ''), undefined, { polling: 'raf' });
    const said = performance.now() - clicked;
    await page.waitForFunction(() => !document.querySelector('form[action$="/abort"]'), undefined, { polling: 'raf' }); // the page follows by itself
    const gone = performance.now() - clicked;
    await says(page, /told to stop[^]*1 of 1 removed[^]*aborted[^]*stopped by/i);
    const { status, ms: answered } = await answer;
    assert.equal(status, 303);
    return { answered, said, gone, on: await faultWentOn(page) };
  })();
  assert.ok(took.said < 1000 || took.on < 1000, `it took ${took.said.toFixed(0)} ms from the click until the page said that it is aborted, and the fault went on for ${took.on} ms`);
  await sound(page, 'the run, aborted');
  await agreed;

  // It begins by itself, at its time, and is watched; the one whose guard fails is not begun, and says why.
  await openDay(page);
  const day = page.locator('#show');
  await until('the run is under way', async () => /baseline|injecting|recovering/i.test(await day.innerText()) || !(await page.reload()), 150);
  const first = Date.now();
  await day.locator('tbody th a').first().click();
  await says(page, /Expected and seen/);
  await until('the fault is on', async () => /injecting/i.test(await page.locator('main .head .chip').innerText()) || !(await page.reload()), 40);
  await sound(page, 'the run, under way');
  await menu(dora.page, 'Game days');
  const skipped = dora.page.locator('#decisions tbody tr', { hasText: 'Weekly: ' + spent });
  assert.match(await skipped.innerText(), /skipped/i);
  assert.match(await skipped.innerText(), /points has .* of its budget left, and more than 30.% must be left|points is frozen/);
  const why = (await skipped.locator('td').nth(2).innerText()).trim();
  await until('the run has a verdict', async () => /failed/i.test(await page.locator('main .head .chip').innerText()) || !(await page.reload()), 90);
  assert.match(await page.locator('table.checks').innerText(), / d1[^]*<= 4.%[^]*fail/i);
  await page.locator('main .head a', { hasText: 'The game day' }).click();
  await says(page, /Run of show/);
  await until('the finding stands', async () => await page.locator('#findings tbody tr').count() > 0 || !(await page.reload()), 30);
  await sound(page, 'the game day, held');

  // One file for whoever was not there.
  const report = await saved(page, page.locator('main a[href$="report?format=md"]'));
  assert.match(report.name, /^g-.*\.md$/);
  for (const part of [/inventory/, /failed/i, /team-inventory/]) assert.match(report.text, part);
  await page.locator('main a[href$="report?format=html"]').click();
  await page.waitForURL(/report\?format=html/);
  assert.match(await page.locator('body').innerText(), /One read of inventory in five[^]*failed/i);
  assert.equal(await page.locator('script, link, img:not([src^="data:"])').count(), 0, 'the report is one file');
  await page.goBack();

  // What it found is a defect with an owner and a date; it is mended in the documents, and said to be.
  await menu(page, 'Findings');
  await page.locator('main tbody tr', { hasText: 'journey-inventory' }).locator('a[href^="/findings/"]').first().click();
  await says(page, /team-inventory/);
  await says(page, /due/i);
  await sound(page, 'the finding');
  const gateway = join(config, 'gateway.yaml');
  const was = readFileSync(gateway, 'utf8');
  writeFileSync(gateway, was.replaceAll('retry_on_status: [502, 503, 504]', 'retry_on_status: [500, 502, 503, 504]'));
  await page.locator('textarea[name=note]').fill('500 is tried again, once more at most');
  await page.locator('#close').click();
  await says(page, /claimed|mended/i);
  await menu(admin.page, 'Configuration');
  await until('the gateway serves it', async () => /gateway/.test(await admin.page.locator('#documents tbody tr').first().locator('td').nth(4).innerText()) || !(await admin.page.reload()), 30);

  // The next game day looks at it again, by itself.
  await menu(page, 'Game days');
  await card.locator('summary').click();
  await card.locator('button', { hasText: 'Hold' }).click();
  await says(page, /It is held now/);
  await openDay(dora.page);
  await dora.page.locator('#approve').click();
  await openDay(page);
  await until('it passes', async () => /passed/i.test(await day.innerText()) || !(await page.reload()), 120);
  await until('the finding is among what it looked at', async () => await page.locator('#findings tbody a').count() > 0 || !(await page.reload()), 30);
  await page.locator('#findings a[href^="/findings/"]').first().click();
  await until('the finding is closed by it', async () => /verified/i.test(await page.locator('#evidence').innerText()) || !(await page.reload()), 30);
  await sound(page, 'the finding, verified');
  writeFileSync(gateway, was);

  const s = (/** @type {number} */ ms) => (ms / 1000).toFixed(0) + ' s';
  console.log(`# J1: planned ${s(planned - began)} after the overview was opened, the first scheduled run ${s(first - installed)} after the ${process.env.INSTALLED ? 'install' : 'journey began'}; ` +
    `abort answered ${took.answered.toFixed(0)} ms and shown ${took.said.toFixed(0)} ms after the click, gone at every gateway on the page after ${took.gone.toFixed(0)} ms, where it went on for ${took.on} ms; skipped: ${why}; all of it ${s(Date.now() - began)}`);
  assert.ok(first - installed < 300_000, `the first scheduled run began ${s(first - installed)} after the install`);
  assert.deepEqual([...sins, ...dora.sins, ...admin.sins].filter((x) => !/status of 422/.test(x)), []);
  for (const x of [context, dora.context, admin.context]) await x.close();
});
