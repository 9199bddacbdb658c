// One browser for all tests: Debian's Chromium, without anything that would call home.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';

export const base = process.env.BASE_URL || 'http://127.0.0.1:8081';

/** What an admin's requests carry: pages of admins are asked for with a token. @type {Record<string, string>} */
export const adminHeaders = process.env.ADMIN_TOKEN ? { Authorization: 'Bearer ' + process.env.ADMIN_TOKEN } : {};

// A window of Chromium loads pages of its own for the field of addresses, which cost more than most of ours; nobody sees them.
// The other features are those that Playwright 1.65 turns off, for only the last such list counts.
const off = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'LensOverlay', 'MediaRouter',
  'PaintHolding', 'ThirdPartyStoragePartitioning', 'AvoidCorsURLLoaderRestartOnRedirect', 'OptimizationHints', 'NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch'];
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-features=' + off.join(',')];

// Debian's shell without windows does the same with half of the work, where it is installed.
const executablePath = process.env.CHROMIUM || ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path));

export const launch = () => chromium.launch({ executablePath, headless: true, args: flags });

/**
 * A page that remembers what it must not have done: errors in the console, requests to another host.
 * @param {import('playwright-core').Browser} browser
 * @param {import('playwright-core').BrowserContextOptions} [options]
 */
export async function watched(browser, options) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, reducedMotion: 'reduce', ...options }); // nothing is looked at half-way
  const page = await context.newPage();
  page.setDefaultTimeout(20_000); // a form that is not there is told, and not waited for
  /** @type {string[]} */
  const sins = [];
  page.on('console', (m) => m.type() === 'error' && sins.push('console: ' + m.text()));
  page.on('pageerror', (e) => sins.push('error: ' + e.message));
  page.on('request', (r) => {
    const { protocol, host } = new URL(r.url());
    if (!['data:', 'blob:'].includes(protocol) && host !== new URL(base).host) sins.push('request to ' + r.url());
  });
  return { context, page, sins };
}

/**
 * What the page shows, at once or when it has come: a click returns when the next page has begun.
 * @param {import('playwright-core').Page} page
 * @param {RegExp} what
 */
export async function says(page, what) {
  await page.waitForFunction(([source, flags]) => new RegExp(source, flags).test(document.querySelector('main')?.innerText || ''), [what.source, what.flags]).catch(() => {});
  assert.match(await page.locator('main').innerText(), what);
}

/** Looks again until it is so. @param {string} what @param {() => Promise<boolean>} ok @param {number} seconds */
export async function until(what, ok, seconds) {
  for (const end = Date.now() + seconds * 1000; !(await ok()); await new Promise((r) => setTimeout(r, 500))) {
    assert.ok(Date.now() < end, `after ${seconds} s still not: ${what}`);
  }
}

/**
 * The page of that name, as a person gets there: by the menu, which on a phone stands behind its last tab.
 * @param {import('playwright-core').Page} page
 * @param {string} name
 */
export async function menu(page, name) {
  const wide = page.locator('nav.nav > a', { hasText: name });
  const tab = page.locator('nav.nav .phone a', { hasText: name });
  if (await wide.first().isVisible()) await wide.first().click();
  else if (await tab.count()) await tab.first().click();
  else {
    await page.locator('nav.nav .phone a').last().click();
    await page.locator('nav.menu a', { hasText: name }).first().click();
  }
  await page.locator('nav.nav > a[aria-current]', { hasText: name }).waitFor({ state: 'attached' });
}

/** What a click on a link saves to disk. @param {import('playwright-core').Page} page @param {import('playwright-core').Locator} link */
export async function saved(page, link) {
  const [file] = await Promise.all([page.waitForEvent('download'), link.first().click()]);
  return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') };
}

/** How long the fault of the run that is open went on after it was told to stop, in ms: a busy machine delays browsers, not this. @param {import('playwright-core').Page} page */
export async function faultWentOn(page) {
  const path = new URL(page.url()).pathname.replace('/runs/', '/api/v1/experiments/');
  const { state, recover_at: asked, ended_at: ended } = await (await page.request.get(base + path)).json();
  assert.equal(state, 'aborted');
  return Date.parse(ended) - Date.parse(asked);
}

/**
 * Somebody of a role: an admin makes the account, by clicks, and they sign in with its first password and change it.
 * @param {import('playwright-core').Browser} browser
 * @param {string} role
 * @param {import('playwright-core').BrowserContextOptions} [options]
 */
export async function person(browser, role, options) {
  const admin = await watched(browser, { extraHTTPHeaders: adminHeaders });
  const name = role + Date.now() % 1e6;
  await admin.page.goto(base + '/');
  await menu(admin.page, 'People');
  await admin.page.locator('form[action="/admin/users"] input[name=name]').fill(name);
  await admin.page.locator('form[action="/admin/users"] select[name=role]').selectOption(role);
  await admin.page.locator('form[action="/admin/users"] button').click();
  const first = await admin.page.locator('code.secret').innerText();
  assert.deepEqual(admin.sins, []);
  await admin.context.close();
  const they = await watched(browser, options);
  await they.page.goto(base + '/');
  await they.page.getByRole('link', { name: 'Sign in' }).first().click();
  await they.page.locator('input[name=name]').fill(name);
  await they.page.locator('input[name=password]').fill(first);
  await they.page.locator('button.key').click();
  await they.page.locator('input[name=present]').fill(first);
  await they.page.locator('input[name=new]').fill('four words are enough');
  await they.page.locator('input[name=again]').fill('four words are enough');
  await they.page.locator('button.key').click();
  await they.page.locator('nav.nav .who', { hasText: name }).waitFor({ state: 'attached' });
  return { ...they, name };
}
