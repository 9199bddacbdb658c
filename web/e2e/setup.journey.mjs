// J6 without Helm: from an empty control to a first promise and a first weekly drill, by clicks and by the one command that
// the page shows. Not one of the tests of a running house: TestUX_J6 of cmd/breakwater starts an empty one for it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { sound } from './axe.mjs';
import { base, launch, menu, says, watched } from './browser.mjs';

/** @type {import('playwright-core').Browser} */
let browser;
/** @type {import('node:child_process').ChildProcess | undefined} */
let gateway;
before(async () => { browser = await launch(); });
after(async () => {
  if (gateway?.pid) {
    const gone = new Promise((done) => gateway?.once('exit', done));
    process.kill(-gateway.pid, 'SIGTERM'); // the shell and what it started
    await gone;
  }
  await browser.close();
});

const { PASSWORD = '', WORK = '', UPSTREAM = '', BREAKWATER = '' } = process.env;

test('J6: an empty control, a first promise and a first weekly drill in under five minutes', async () => {
  const began = Date.now();
  let steps = 0;
  const { context, page, sins } = await watched(browser);
  const fill = (/** @type {string} */ name, /** @type {string} */ value) => { steps++; return page.locator(`main [name=${name}]`).first().fill(value); };
  const press = (/** @type {string} */ selector) => { steps++; return page.locator(selector).first().click(); };

  await page.goto(base + '/');
  assert.equal(new URL(page.url()).pathname, '/signin'); // nobody is let in unasked
  await fill('name', 'admin');
  await fill('password', PASSWORD);
  await press('button.key');
  await sound(page, 'the change of the first password');
  await fill('present', PASSWORD);
  await fill('new', 'a first day of an installation');
  await fill('again', 'a first day of an installation');
  await press('button.key');
  await sound(page, 'an empty overview');
  await press('main a[href="/setup"]');

  await says(page, /Step 1 of 3/);
  await sound(page, 'step 1');
  await fill('name', 'gw-1');
  await fill('service', 'shop');
  await fill('address', UPSTREAM);
  await press('main button.key');
  await page.locator('#setup-secret pre').nth(1).waitFor();
  const [document, command] = await page.locator('#setup-secret pre').allInnerTexts();
  await sound(page, 'the command');
  writeFileSync(join(WORK, 'gw.yaml'), document);
  let said = '';
  gateway = spawn('sh', ['-c', command], { cwd: WORK, detached: true, stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, PATH: dirname(BREAKWATER) + ':' + process.env.PATH, BREAKWATER_LISTEN: '127.0.0.1:0', BREAKWATER_ADMIN: '127.0.0.1:0', BREAKWATER_STATE_DIR: join(WORK, 'state') } });
  steps++;
  gateway.stderr?.on('data', (text) => { said += text; });
  // The page goes on by itself when the gateway reports.
  await page.waitForFunction(() => /Step 2 of 3/.test(document.querySelector('main')?.innerText || ''), undefined, { timeout: 60_000 });
  await sound(page, 'step 2, waiting for traffic');
  const data = /"data":"([^"]+)"/.exec(said)?.[1];
  assert.ok(data, `the gateway does not say where it listens:\n${said}`);
  for (let i = 0; i < 200; i++) assert.equal((await fetch(`http://${data}/orders/${i}`)).status, 200);
  steps++;
  await page.waitForSelector('#promise button.key', { timeout: 60_000 });
  await sound(page, 'step 2');
  await fill('owner', 'team-shop');
  await press('#promise button.key');
  await says(page, /Step 3 of 3/);
  await sound(page, 'step 3');
  await page.locator('select[name=day]').selectOption({ label: 'Tuesday' });
  steps++;
  // What preflight refuses unless it is meant: a new house has hardly any traffic.
  for (const box of await page.locator('input[name=accept]').all()) { await box.check(); steps++; }
  if (await page.locator('input[name=accept]').count()) await press('button:has-text("Look again")');
  await press('#drill button.key.large');
  await says(page, /All is set up/);
  await sound(page, 'the end of the setup');
  await menu(page, 'SLOs');
  await says(page, /shop/i);
  await menu(page, 'Game days');
  await page.locator('main nav a:has-text("List")').first().click();
  await says(page, /Weekly drill of shop/);
  const took = (Date.now() - began) / 1000;
  console.log(`# J6: ${steps} steps in ${took.toFixed(0)} s, the looks of axe among them`);
  assert.ok(took < 300, `it took ${took} s`);
  assert.ok(steps <= 30, `${steps} steps`);
  assert.deepEqual(sins, []);
  await context.close();
});
