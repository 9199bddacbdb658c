// What people come for, from the first click to the answer, against a running demo.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { strict } from './axe.mjs';
import { adminHeaders, base, launch, says, watched } from './browser.mjs';
import { found } from './pages.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

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
  for (const lead of await page.locator('#answers .lead').all()) { // all three, above the bar at the foot
    const box = await lead.boundingBox();
    assert.ok(box && box.y < 844 - 56, `an answer stands at ${box?.y}, below what a phone shows`);
  }
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

test('J1: a scenario is planned each week, by clicks alone, and stands in the calendar', async () => {
  for (const [colorScheme, width] of /** @type {const} */ ([['light', 1440], ['dark', 390]])) {
    const { context, page, sins } = await watched(browser, { colorScheme, viewport: { width, height: 900 } });
    await page.goto(base + '/scenarios');
    // One that no game day holds yet: the one that reads "never" has no next run.
    const names = await page.locator('main table tbody th a').evaluateAll((all) => all.map((a) => a.getAttribute('href') || ''));
    let planned = '';
    for (const href of names.reverse()) {
      await page.goto(base + href);
      if (await page.locator('#plan form').count()) { planned = href; break; }
    }
    assert.ok(planned, 'every scenario has a plan already');
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
    await page.goto(base + '/gamedays?view=list');
    await says(page, /Weekly: /);
    assert.deepEqual(sins.filter((s) => !/status of 422/.test(s)), []);
    await context.close();
  }
});

test('J3: what the command line was told stands on the page', async () => {
  const { context, page, sins } = await watched(browser);
  const cli = process.env.BREAKWATER;
  assert.ok(cli, 'BREAKWATER must name the program');
  await page.goto(base + '/gate');
  const service = (await page.locator('main table').filter({ hasText: 'Verdict' }).first().locator('tbody th a').first().innerText()).trim();
  const ref = 'journey-' + Date.now();
  const told = spawnSync(cli, ['gate', service, '--ref', ref, '--control', base, '-o', 'json'], { encoding: 'utf8' });
  const answer = JSON.parse(told.stdout);
  assert.equal(told.status, { allow: 0, deny: 1, hold: 3, unknown: 4 }[/** @type {'allow'} */ (answer.decision)], told.stderr);
  await page.locator('main .tabs a:has-text("Decisions")').click();
  const row = page.locator('#decisions tbody tr').filter({ hasText: ref });
  const text = await row.innerText();
  for (const part of [service, answer.decision, answer.reason_code, answer.decision_id]) assert.ok(text.includes(part), `${part} is not in ${text}`);
  assert.deepEqual(sins, []);
  await context.close();
});

test('J4: from the alert to the three answers, taken in hand and kept quiet', async () => {
  for (const options of [{}, { javaScriptEnabled: false, colorScheme: /** @type {const} */ ('dark'), viewport: { width: 390, height: 844 } }]) {
    const { context, page, sins } = await watched(browser, options);
    await page.goto(base + '/alerts');
    const alert = await page.locator('main tbody th a').first().getAttribute('href', { timeout: 2000 });
    assert.ok(alert, 'no alert is open, where a service is frozen');
    await page.goto(base + alert); // as the link in the message has it
    await page.locator('main .head a:has-text("Who is hit now")').click();
    const at = await page.locator('#answers').boundingBox();
    assert.ok(at && at.y < 844, 'the answers begin below the fold');
    assert.equal(await page.locator('#answers h2, #answers .answer').count() >= 3 || (await page.locator('#answers').innerText()).split('\n').length >= 6, true);
    await page.goto(base + alert);
    if (await page.locator('form[action$="/ack"]').count()) { // the second visitor finds it done
      await page.locator('input[name=note]').fill('looking at it');
      await page.locator('form[action$="/ack"] button').click();
    }
    await says(page, /looking at it|cknowledged/);
    await page.goto(base + '/alerts?view=silences');
    const why = 'planned work ' + Date.now();
    await page.locator('form[action="/silences"] select[name=minutes]').selectOption('60');
    await page.locator('form[action="/silences"] input[name=reason]').fill(why);
    await page.locator('form[action="/silences"] button').click();
    const row = page.locator('main tbody tr').filter({ has: page.locator('form[action$="/end"]') }).first();
    assert.ok(await row.isVisible());
    await row.locator('button').click();
    await says(page, /speak|ended|over/i);
    assert.deepEqual(sins, []);
    await context.close();
  }
});

test('people: an account is made, signs in with its first password, changes it, and is let in', async () => {
  const admin = await watched(browser, { extraHTTPHeaders: adminHeaders, javaScriptEnabled: false });
  const name = 'kim' + Date.now() % 1e6;
  await admin.page.goto(base + '/admin/');
  await admin.page.locator('form[action="/admin/users"] input[name=name]').fill(name);
  await admin.page.locator('form[action="/admin/users"] select[name=role]').selectOption('approver');
  await admin.page.locator('form[action="/admin/users"] button').click();
  const first = await admin.page.locator('code.secret').innerText();
  const { context, page, sins } = await watched(browser); // axe waits by timers, which a page without script has not
  await page.goto(base + '/signin?next=' + encodeURIComponent('/gate?view=overrides'));
  await page.locator('input[name=name]').fill(name);
  await page.locator('input[name=password]').fill(first);
  await page.locator('button.key').click();
  assert.match(page.url(), /\/password\?/);
  const { violations } = await strict(page);
  assert.deepEqual(violations, []);
  await page.locator('input[name=present]').fill(first);
  await page.locator('input[name=new]').fill('four words are enough');
  await page.locator('input[name=again]').fill('four words are enough');
  await page.locator('button.key').click();
  assert.equal(new URL(page.url()).pathname, '/gate');
  assert.ok((await page.locator('body').innerText()).includes(name), 'the page says who looks');
  await admin.page.goto(base + '/admin/audit?actor=' + name);
  await says(admin.page, /session\.open/);
  assert.deepEqual([...sins, ...admin.sins], []);
  await context.close();
  await admin.context.close();
});

test('P20: back to an earlier configuration, without script, and the gateway follows', async () => {
  const { context, page, sins } = await watched(browser, { extraHTTPHeaders: adminHeaders, javaScriptEnabled: false });
  await page.goto(base + '/admin/config');
  const rows = page.locator('#documents tbody tr');
  if (await rows.count() < 2) return context.close();
  const newest = Number(await rows.first().locator('th').innerText());
  const to = await page.locator('#documents a[href^="/admin/config/"]').first().getAttribute('href');
  await page.goto(base + to);
  assert.ok(await page.locator('table.lines tbody tr').count() > 0, 'nothing differs');
  await page.locator('input[name=reason]').fill('a journey goes back');
  await page.locator('form.fields button.key').click();
  await says(page, /is put back, as revision/);
  assert.ok(Number(await rows.first().locator('th').innerText()) > newest);
  assert.match(await rows.first().innerText(), /Roll back to/);
  // And forwards again: a journey leaves the house as it was.
  await page.goto(base + '/admin/config/' + newest);
  await page.locator('input[name=reason]').fill('and it comes forwards again');
  await page.locator('form.fields button.key').click();
  await says(page, /is put back, as revision/);
  assert.deepEqual(sins, []);
  await context.close();
});

test('forms are sent without script: notes, answers, questions', async () => {
  const { context, page, sins } = await watched(browser, { extraHTTPHeaders: adminHeaders, javaScriptEnabled: false });
  const f = await found(browser);
  if (f.day) {
    await page.goto(base + f.day);
    await page.locator('#note input[name=text]').fill('the pager stayed quiet');
    await page.locator('#note button').click();
    await says(page, /the pager stayed quiet/);
  }
  await page.goto(base + f.ready);
  const answer = page.locator('form:has(input[name=evidence]), form:has(textarea[name=evidence])').first();
  if (await answer.count()) {
    const card = page.locator('details:has(form)').first();
    if (await card.count() && !(await answer.isVisible())) await card.locator('summary').click();
    await answer.locator('[name=evidence]').fill('https://wiki.example/where-it-is-written');
    await answer.locator('button').first().click();
    await says(page, /where-it-is-written/);
  }
  await page.goto(base + '/simulator');
  await page.locator('input[name=path]').fill('/orders/1');
  await page.locator('textarea[name=answer]').fill('HTTP/1.1 503 Service Unavailable\n\n');
  await page.locator('form[action="/simulator"] button').click();
  await says(page, /Decided by|Route/);
  await page.goto(base + '/simulator?view=compare');
  await page.locator('form[action="/simulator/compare"] button').click();
  await says(page, /What would differ/);
  await page.goto(base + '/experiments/new?from=control-run-0');
  await page.locator('button:has-text("Check")').first().click();
  await says(page, /Preflight/);
  await page.goto(base + '/gate?view=overrides');
  const ask = page.locator('form[action="/gate/overrides"]');
  const ref = 'c0ffee' + Date.now();
  await ask.locator('[name=ref]').fill(ref);
  await ask.locator('[name=reason]').fill('customers cannot pay');
  await ask.locator('[name=ticket]').fill('INC-7');
  await ask.locator('button').click();
  await says(page, new RegExp(ref));
  const row = page.locator('#overrides tbody tr').filter({ hasText: ref });
  await row.locator('form[action$="/revoke"] button').click();
  await says(page, /revoked/i);
  await page.goto(base + '/admin/tokens');
  const token = 'spare' + Date.now() % 1e6;
  await page.locator('form[action="/admin/tokens"] [name=name]').fill(token);
  await page.locator('form[action="/admin/tokens"] [name=days]').fill('1');
  await page.locator('form[action="/admin/tokens"] button').click();
  assert.match(await page.locator('code.secret').innerText(), /^bw_/);
  await page.locator('tbody tr').filter({ hasText: token }).locator('button').click();
  assert.match(await page.locator('tbody tr').filter({ hasText: token }).innerText(), /revoked/i);
  await page.goto(base + '/find');
  await page.locator('header input[name=q]').fill('points');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/find\?q=points/);
  assert.ok(await page.locator('.found a').first().isVisible());
  assert.deepEqual(sins.filter((x) => !/status of 422/.test(x)), []); // a question that cannot be asked is told so on its page
  await context.close();
});
