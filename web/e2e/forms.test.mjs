// People, configuration and forms, without script where nothing needs it, against a running demo.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { strict } from './axe.mjs';
import { adminHeaders, base, launch, says, watched } from './browser.mjs';
import { found } from './pages.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

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
