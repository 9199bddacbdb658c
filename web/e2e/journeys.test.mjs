// What people come for, from the first click to the answer, against a running demo. A person begins at the overview, or at
// a link somebody was sent, and gets on by what the pages offer. J1 is held whole in gameday.journey.mjs, J6 in
// setup.journey.mjs.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { base, faultWentOn, launch, menu, person, saved, says, watched } from './browser.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const phone = { viewport: { width: 390, height: 844 } };
const bar = 56; // of a phone, at its foot

/** The program under test, as a pipeline calls it. */
const program = () => process.env.BREAKWATER || assert.fail('BREAKWATER must name the program');

test('J1: a drill is chosen, weighed, and found in the calendar and in a report', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/');
  await menu(page, 'Scenarios');
  await page.locator('main table tbody th a').first().click();
  await says(page, /At the traffic of the last/); // whom it would touch
  await page.locator('main a[href^="/experiments/new?from="]').first().click();
  await page.locator('button:has-text("Check")').first().click();
  await says(page, /Preflight/);
  await menu(page, 'Game days');
  await says(page, /UTC/);
  assert.equal(await page.locator('main h1').innerText(), 'Game days');
  assert.match((await saved(page, page.locator('main a[href$=".ics"]'))).text, /^BEGIN:VCALENDAR/);
  await page.locator('main a[href^="/gamedays/g-"]').first().click();
  for (const part of ['Run of show', 'Roles and approvals', 'Guard', 'Timeline', 'Checklist']) {
    assert.ok(await page.locator(`main h2:has-text("${part}")`).isVisible(), `no ${part}`);
  }
  assert.match((await saved(page, page.locator('main a[href$="report?format=md"]'))).text, /^# /m);
  await page.locator('main a[href$="report?format=html"]').first().click();
  await page.waitForURL(/report\?format=html/);
  assert.ok(await page.locator('h1').isVisible());
  await page.goBack();
  await menu(page, 'Findings');
  assert.equal(await page.locator('main h1').innerText(), 'Findings');
  assert.deepEqual(sins, []);
  await context.close();
});

test('J1: a scenario is planned each week, by clicks alone, and stands in the calendar', async () => {
  for (const [colorScheme, width] of /** @type {const} */ ([['light', 1440], ['dark', 390]])) {
    const { context, page, sins } = await watched(browser, { colorScheme, viewport: { width, height: 900 } });
    await page.goto(base + '/');
    await menu(page, 'Scenarios');
    const names = page.locator('main table tbody th a');
    for (let i = await names.count() - 1; ; i--) { // the last that no game day holds yet
      assert.ok(i >= 0, 'every scenario has a plan already');
      await names.nth(i).click();
      await page.waitForURL(/\/scenarios\/./);
      await page.waitForLoadState();
      if (await page.locator('#plan form').count()) break;
      await page.goBack();
      await names.last().waitFor();
    }
    await page.locator('#plan select[name=day]').selectOption({ label: 'Wednesday' });
    await page.locator('#plan input[name=at]').fill('14:30');
    await page.locator('#plan input[name=zone]').fill('Europe/Nowhere');
    await page.locator('#plan button').click();
    await says(page, /must be an IANA name/); // and what was chosen is still there
    assert.equal(await page.locator('#plan input[name=at]').inputValue(), '14:30');
    await page.locator('#plan input[name=zone]').fill('Europe/Berlin');
    await page.locator('#plan button').click();
    await says(page, /It is planned each week/);
    await says(page, /Europe\/Berlin/);
    assert.equal(await page.locator('main table.coming tbody tr').count(), 5, 'the next five');
    await menu(page, 'Game days');
    await page.locator('main nav a:has-text("List")').first().click();
    await says(page, /Weekly: /);
    assert.deepEqual(sins.filter((s) => !/status of 422/.test(s)), []);
    await context.close();
  }
});

test('J2: on a phone, what is left, for how long, and what is allowed is above the fold', async () => {
  const { context, page, sins } = await watched(browser, phone);
  await page.goto(base + '/');
  await menu(page, 'SLOs');
  const all = page.locator('main table tbody th a[href^="/slos/"]');
  const paces = [];
  for (let i = 0; i < await all.count(); i++) {
    await all.nth(i).click();
    const budget = page.locator('#budget');
    await budget.waitFor();
    for (const [what, part] of /** @type {const} */ ([['the budget', '.huge'], ['the requests', '.small'], ['the pace', '.fact:nth-child(1) dd'], ['the gate', '.fact:last-child dd']])) {
      const at = await budget.locator(part).first().boundingBox();
      assert.ok(at && at.y + at.height <= 844 - bar, `${what} of the promise ends at ${at && at.y + at.height} px`);
    }
    const text = (await budget.innerText()).replace(/[\u202f\u00a0]/g, ' ');
    assert.match(text, /\d+ of [\d ]+ failures left\. That is .*\d (s|min|h|d)\b.* of full outage|\d failures, [\d ]+ were allowed: [\d ]+ over/);
    assert.match(text, /Gate\s+(allow|hold|deny|unknown)/);
    assert.match(await page.locator('main .head .chip').innerText(), /normal|warn|emergency|frozen|no data/); // the level in force
    paces.push(await budget.locator('.fact').first().innerText());
    await page.locator('#who-spent tbody tr', { hasText: 'Spent' }).waitFor();
    await page.locator('main .head a:has-text("Explain")').click(); // the same number, with its integers
    assert.ok((await page.locator('#explain').innerText()).includes(await budget.locator('.huge').innerText()));
    await menu(page, 'SLOs');
  }
  // The story of the demo has a budget that holds, and one that is gone or on its way.
  for (const pace of paces) assert.match(pace, /holds|Empty \w{3} \d+ \w{3} \d\d:\d\d, old failures expiring|spent|Thaws at best/);
  assert.ok(paces.some((p) => !/holds/.test(p)), paces.join('\n'));
  assert.deepEqual(sins, []);
  await context.close();
});

test('J3: the page of the gate and the answer to a pipeline are one', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/');
  await menu(page, 'Gate and freeze');
  await says(page, /Verdict for a feature release/);
  for (const row of await page.locator('main table').filter({ hasText: 'Verdict' }).first().locator('tbody tr').all()) {
    const service = (await row.locator('th a').innerText()).trim();
    const answer = JSON.parse(spawnSync(program(), ['gate', service, '--dry-run', '--control', base, '-o', 'json'], { encoding: 'utf8' }).stdout);
    const text = (await row.innerText()).toLowerCase();
    for (const said of [answer.decision, answer.state, answer.reason_code]) assert.ok(text.includes(said.replace('_', said === answer.reason_code ? '_' : ' ')), `${service}: ${said} is not in ${text}`);
  }
  assert.deepEqual(sins, []);
  await context.close();
});

test('J3: a pipeline waits, glass is broken by two people for that one commit, and closes itself', async () => {
  const { context, page, sins } = await watched(browser); // an operator, as the demo lets its own machine in
  await page.goto(base + '/');
  await menu(page, 'Gate and freeze');
  const frozen = page.locator('main table').filter({ hasText: 'Verdict' }).first().locator('tbody tr').filter({ hasText: 'deny' }).first();
  const service = (await frozen.locator('th a').innerText()).trim();
  const ref = 'journey-' + Date.now();
  const gate = (/** @type {string[]} */ ...more) => ['gate', service, '--ref', ref, '--control', base, '-o', 'json', ...more];

  // Only asked: the same answer and exit code, and nothing is kept.
  const dry = spawnSync(program(), gate('--dry-run'), { encoding: 'utf8' });
  assert.equal(dry.status, 1, dry.stderr);
  assert.equal(JSON.parse(dry.stdout).decision, 'deny');
  await page.locator('main .tabs a:has-text("Decisions")').click();
  assert.equal(await page.locator('#decisions tbody tr').filter({ hasText: ref }).count(), 0);
  // Asked: the answer is kept, as it was told.
  const told = spawnSync(program(), gate(), { encoding: 'utf8' });
  const answer = JSON.parse(told.stdout);
  assert.equal(told.status, { allow: 0, deny: 1, hold: 3, unknown: 4 }[/** @type {'deny'} */ (answer.decision)], told.stderr);
  await page.locator('main .tabs a:has-text("Decisions")').click();
  const text = await page.locator('#decisions tbody tr').filter({ hasText: ref }).first().innerText();
  for (const part of [service, answer.decision, answer.reason_code, answer.decision_id]) assert.ok(text.includes(part), `${part} is not in ${text}`);

  // A pipeline that may wait does, until two people have let it out.
  const waits = promisify(execFile)(program(), gate('--wait', '3m'));
  await page.locator('main .tabs a:has-text("Break glass")').click();
  const ask = page.locator('form[action="/gate/overrides"]');
  await ask.locator('[name=service]').selectOption(service);
  await ask.locator('[name=ref]').fill(ref);
  await ask.locator('[name=reason]').fill('customers cannot pay');
  await ask.locator('[name=ticket]').fill('INC-7');
  await ask.locator('[name=minutes]').selectOption('60');
  await ask.locator('button').click();
  const mine = page.locator('#overrides tbody tr').filter({ hasText: ref });
  assert.match(await mine.innerText(), /in 59\smin|in 1\sh/); // when it ends
  assert.equal(await mine.locator('button:has-text("Grant")').count(), 0, 'nobody grants what they asked for');
  const other = await person(browser, 'approver');
  await menu(other.page, 'Gate and freeze');
  await other.page.locator('main .tabs a:has-text("Break glass")').click();
  const asked = other.page.locator('#overrides tbody tr').filter({ hasText: ref });
  await asked.locator('button:has-text("Grant")').click();
  await says(other.page, new RegExp(other.name));
  const out = JSON.parse((await waits).stdout); // exit code 0, or this throws
  assert.deepEqual([out.decision, out.reason_code], ['allow', 'override']);
  assert.match(out.reasons.join(' '), /INC-7: customers cannot pay/);
  // It was for one use, and closed itself, which the page and the audit say.
  await other.page.locator('main .tabs a:has-text("Break glass")').click();
  await says(other.page, /used up/);
  await other.page.locator('main .tabs a:has-text("Decisions")').click();
  assert.match(await other.page.locator('#decisions tbody tr').filter({ hasText: ref }).first().innerText(), /allow/);
  assert.equal(spawnSync(program(), gate()).status, 1, 'the glass is whole again');
  const admin = await person(browser, 'admin');
  await menu(admin.page, 'Audit');
  await says(admin.page, /override\.use/);
  await says(admin.page, /override\.close/);
  assert.deepEqual([...sins, ...other.sins, ...admin.sins], []);
  for (const x of [context, other.context, admin.context]) await x.close();
});

test('J4: at 3 a.m., from the alert to three answers, and the experiment that does it is stopped', async () => {
  // By day somebody starts a drill that fails a service.
  const day = await watched(browser);
  await day.page.goto(base + '/');
  await menu(day.page, 'Scenarios');
  await day.page.locator('main a:has-text("Coupon fails for one request in five")').first().click();
  await day.page.locator('main a[href^="/experiments/new?from="]').first().click();
  await day.page.locator('[name="phases.baseline"]').fill('10s');
  await day.page.locator('[name="phases.recover"]').fill('10s');
  await day.page.locator('button:has-text("Start now")').click();
  await day.page.waitForURL(/\/runs\//);

  // Whom the alert wakes has a phone, in the dark, and no script.
  const { context, page, sins } = await watched(browser, { ...phone, javaScriptEnabled: false, colorScheme: 'dark' });
  await page.goto(base + '/');
  await menu(page, 'Alerts');
  const alert = await page.locator('main tbody th a').first().getAttribute('href', { timeout: 2000 });
  assert.ok(alert, 'no alert is open, where a service is frozen');
  await page.goto(base + alert); // as the link in the message has it
  await page.locator('main .head a:has-text("Who is hit now")').click();
  const three = async () => {
    const at = await page.locator('#answers').boundingBox();
    assert.ok(at && at.y < 844, 'the answers begin below the fold');
    assert.deepEqual(await page.locator('#answers h2').allInnerTexts(), ['Who is hit', 'By what measure', 'What protects now']);
    for (const lead of await page.locator('#answers .lead').all()) { // all three, above the bar at the foot
      const box = await lead.boundingBox();
      assert.ok(box && box.y < 844 - bar, `an answer stands at ${box?.y}, below what a phone shows`);
    }
  };
  await three();
  await says(page, /Likely causes/);
  assert.ok(await page.locator('#stop-all').isVisible());
  await page.goBack();
  if (await page.locator('form[action$="/ack"]').count()) { // the second visitor finds it done
    await page.locator('input[name=note]').fill('looking at it');
    await page.locator('form[action$="/ack"] button').click();
  }
  await says(page, /looking at it|cknowledged/);

  // What fails now is worst in the list of all; its first cause is the drill.
  await menu(page, 'Now');
  await page.locator('main table tbody th a', { hasText: /^coupon$/ }).click();
  const stop = page.locator('.cause form[action$="/abort"] button').first();
  for (const end = Date.now() + 90_000; !(await stop.count()); await page.reload()) {
    assert.ok(Date.now() < end, `no cause can be stopped:\n${await page.locator('main').innerText()}`);
  }
  await three();
  assert.match(await page.locator('.cause').first().innerText(), /Coupon fails for one request in five/);
  const twin = spawnSync(program(), ['now', 'coupon', '--control', base], { encoding: 'utf8' });
  assert.match(twin.stdout, /Coupon fails for one request in five/, twin.stderr); // the command line says the same
  const began = Date.now();
  await stop.click();
  assert.match(await page.locator('main').innerText(), /abort|stopped early/);
  const pressed = Date.now() - began;
  for (; !/stopped early/.test(await page.locator('main').innerText()); await page.reload()) {
    assert.ok(Date.now() < began + 20_000, `it does not end:\n${await page.locator('main').innerText()}`);
  }
  console.log(`# J4: a page after ${pressed} ms, the end of the run on a page after ${Date.now() - began} ms`);
  const on = await faultWentOn(page);
  assert.ok(on < 1000, `the fault went on for ${on} ms`);
  await says(page, /1 of 1 removed/); // by word of the gateway
  await says(day.page, /stopped early/); // whoever watches sees it
  assert.deepEqual([...sins, ...day.sins], []);
  await context.close();
  await day.context.close();
});

test('J4: an alert is kept quiet while somebody works, and speaks again', async () => {
  for (const options of [{}, { ...phone, javaScriptEnabled: false, colorScheme: /** @type {const} */ ('dark') }]) {
    const { context, page, sins } = await watched(browser, options);
    await page.goto(base + '/');
    await menu(page, 'Alerts');
    await page.locator('main .tabs a:has-text("Silences")').click();
    await page.locator('form[action="/silences"] select[name=minutes]').selectOption('60');
    await page.locator('form[action="/silences"] input[name=reason]').fill('planned work ' + Date.now());
    await page.locator('form[action="/silences"] button').click();
    const row = page.locator('main tbody tr').filter({ has: page.locator('form[action$="/end"]') }).first();
    assert.ok(await row.isVisible());
    await row.locator('button').click();
    await says(page, /speak|ended|over/i);
    assert.deepEqual(sins, []);
    await context.close();
  }
});

test('setup: what is not set up yet is offered, what is, is told', async () => {
  const { context, page, sins } = await watched(browser);
  await page.goto(base + '/setup');
  assert.equal(await page.locator('main h1').innerText(), 'Setup');
  for (const step of ['Where traffic is', 'The first promise', 'The first drill']) await says(page, new RegExp(step));
  assert.deepEqual(sins, []);
  await context.close();
});
