// Every page of the router with an address to look at it. routes.json is held against the real router by a Go test, so a
// page that is new there and has no row here fails the tests that use this.
import { readFile } from 'node:fs/promises';
import { adminHeaders, base } from './browser.mjs';

/** @typedef {{ pattern: string, name: string, path: string, has: string[], admin?: boolean, bare?: boolean, chrome?: boolean }} Look */

/** @type {string[]} */
export const patterns = JSON.parse(await readFile(new URL('./routes.json', import.meta.url), 'utf8'));

/**
 * What there is to look at in this house: the newest run, an SLO, a service and so on; '' where there is none.
 * @param {import('playwright-core').Browser} browser
 */
export async function found(browser) {
  const context = await browser.newContext({ extraHTTPHeaders: adminHeaders });
  const page = await context.newPage();
  const href = async (/** @type {string} */ path, /** @type {string} */ selector) => {
    await page.goto(base + path); // what the server sends is whole: nothing has to be waited for
    const link = page.locator(selector).first();
    return await link.count() ? (await link.getAttribute('href')) || '' : '';
  };
  const out = {
    service: await href('/', '.svc'),
    slo: await href('/slos', 'main tbody th a'),
    run: await href('/runs', 'main tbody th a[href^="/runs/"]'),
    alert: await href('/alerts?view=all', 'main tbody a[href^="/alerts/"]'),
    day: (await href('/gamedays?view=list', 'main a[href^="/gamedays/g-"]')) || (await href('/gamedays', '.plan header a[href^="/gamedays/"]')),
    finding: await href('/findings', 'main tbody a[href^="/findings/"]'),
    request: await href('/requests', 'main tbody a[href^="/requests/"]'),
    ready: await href('/readiness', 'main tbody a[href^="/readiness/"]'),
    revision: await href('/admin/config', '#documents a[href^="/admin/config/"]'),
  };
  await context.close();
  return out;
}

/**
 * Each page with what it must say, script or not. Where the house has nothing of a kind yet its page is left out, which
 * `missing` tells.
 * @param {Awaited<ReturnType<typeof found>>} f
 * @returns {Look[]}
 */
export function pages(f) {
  const more = (/** @type {string} */ path, /** @type {string} */ query) => path && path + (path.includes('?') ? '&' : '?') + query;
  /** @type {[string, string, string, string[]][]} */
  const rows = [
    ['/', 'overview', '/', ['main h1:has-text("Overview")', '.tiles .tile', '.svc', '.svc .bar']],
    ['/', 'overview as a table', '/?view=table', ['main table tbody tr']],
    ['/', 'wall', '/?tv=1', ['.svc']],
    ['/services/{service}', 'service', f.service, ['#budget .huge', '#budget .bar', '#explain table tbody tr', 'bw-chart figure', '#latency', '#around', '#recent']],
    ['/now', 'now', '/now', ['#answers .huge', 'main h2:has-text("Likely causes")', 'main h2:has-text("All services")', '#explain table tbody tr']],
    ['/slos', 'SLOs', '/slos', ['main table tbody tr .chip', 'main table .bar']],
    ['/slos/{id}', 'SLO', f.slo, ['#budget .huge', '#who-spent', '#whatif select', 'bw-chart figure', '#explain table tbody tr']],
    ['/slos/{id}', 'SLO, what if', more(f.slo, 'target=99.5&window=7d'), ['#whatif table tbody tr']],
    ['/breakers', 'breakers', '/breakers', ['#bands svg.lanes rect', '#now table tbody tr', '#limits table tbody tr', 'main h2:has-text("Transitions")']],
    ['/retries', 'retries', '/retries', ['#facts .big', '#routes tbody tr', 'bw-chart figure', '#fates', '#explain table tbody tr']],
    ['/alerts', 'alerts', '/alerts?view=all', ['.tabs a', 'main h2:has-text("Incidents")']],
    ['/alerts', 'silences', '/alerts?view=silences', ['main h2:has-text("Silences")']],
    ['/silences', 'silences after a refusal', '/silences', ['main h2:has-text("Silences")']],
    ['/alerts/{id}', 'alert', f.alert, ['main h1']],
    ['/alerts/{id}/ack', 'alert after a refusal', f.alert && f.alert + '/ack', ['main h1']],
    ['/find', 'find', '/find?q=' + encodeURIComponent(f.service.split('/').pop() || ''), ['.found a']],
    ['/gamedays', 'game days', '/gamedays', ['main h1:has-text("Game days")']],
    ['/gamedays', 'game days as a list', '/gamedays?view=list', ['main h1:has-text("Game days")']],
    ['/gamedays/{id}', 'game day', f.day, ['main h2:has-text("Run of show")', '#people', '#checklist']],
    ['/gamedays/{id}/notes', 'game day after a refusal', f.day && f.day + '/notes', ['#checklist']],
    ['/scenarios', 'scenarios', '/scenarios', ['main h1:has-text("Scenarios")', 'main table tbody tr', 'main .filter select']],
    ['/scenarios/{name}', 'scenario', '/scenarios/control-run-0', ['#preflight .chip', 'main h2:has-text("Hypothesis")', 'main h2:has-text("Runs")']],
    ['/scenarios/{name}/run', 'scenario after a refusal', '/scenarios/control-run-0/run', ['#preflight .chip']],
    ['/scenarios/{name}/plan', 'scenario after a plan', '/scenarios/control-run-0/plan', ['main h2:has-text("Schedule")']],
    ['/experiments/new', 'editor', '/experiments/new?from=control-run-0', ['#yaml', '#fields input', '#checked .chip']],
    ['/experiments/check', 'editor, checked', '/experiments/check', ['#yaml']],
    ['/experiments/start', 'editor, started', '/experiments/start', ['#yaml']],
    ['/setup', 'setup', '/setup', ['.steps li', 'main h2, main h3']],
    ['/setup/gateway', 'setup of a gateway', '/setup/gateway', ['.steps li']],
    ['/setup/slo', 'setup of an SLO', '/setup/slo', ['.steps li']],
    ['/setup/drill', 'setup of a drill', '/setup/drill', ['.steps li']],
    ['/runs', 'runs', '/runs', ['main h1:has-text("Runs")']],
    ['/runs/{id}', 'run', f.run, ['.phases .phase', 'main h2:has-text("Expected and seen")']],
    ['/gate', 'gate', '/gate', ['main table tbody tr', 'main code:has-text("breakwater gate")']],
    ['/gate', 'gate, decisions', '/gate?view=decisions', ['main h1']],
    ['/gate', 'gate, break glass', '/gate?view=overrides', ['main h1']],
    ['/gate/overrides', 'gate after a refusal', '/gate/overrides', ['main h1']],
    ['/findings', 'findings', '/findings', ['main h1:has-text("Findings")']],
    ['/findings/{key}', 'finding', f.finding, ['#evidence', '#act', '#story']],
    ['/findings/{key}/close', 'finding after a refusal', f.finding && f.finding + '/close', ['#act']],
    ['/findings/{key}/accept', 'finding after another', f.finding && f.finding + '/accept', ['#act']],
    ['/readiness', 'readiness', '/readiness', ['main h1:has-text("Readiness")', 'main table tbody tr']],
    ['/readiness/{service}', 'readiness of a service', f.ready, ['main table tbody tr, main li']],
    ['/requests', 'requests', '/requests', ['main h1:has-text("Requests")', 'main form']],
    ['/requests/{id}', 'request', f.request, ['main h1']],
    ['/simulator', 'simulator', '/simulator', ['main h1:has-text("Simulator")', 'main textarea']],
    ['/simulator', 'simulator, comparing', '/simulator?view=compare', ['main h1:has-text("Simulator")']],
    ['/menu', 'menu', '/menu', ['.menu a']],
    ['/signin', 'sign in', '/signin', ['input[name=password]']],
    ['/admin/', 'people', '/admin/', ['main table tbody tr', 'form[action="/admin/users"]']],
    ['/admin/tokens', 'tokens', '/admin/tokens', ['main table tbody tr', 'form[action="/admin/tokens"]']],
    ['/admin/audit', 'audit', '/admin/audit', ['main table tbody tr']],
    ['/admin/config', 'configuration', '/admin/config', ['#documents tbody tr', 'main h2:has-text("Gateways")']],
    ['/admin/config/{number}', 'roll back', f.revision, ['main h1:has-text("Roll back")']],
    ['/admin/deliveries', 'deliveries', '/admin/deliveries', ['main h1']],
    ['/admin/database', 'database', '/admin/database', ['main table tbody tr']],
    ['/admin/doctor', 'health', '/admin/doctor', ['main table tbody tr']],
  ];
  return rows.filter(([, , path]) => path).map(([pattern, name, path, has]) => ({
    pattern, name, path, has, admin: pattern.startsWith('/admin'), bare: pattern === '/signin', chrome: pattern !== '/signin' && path !== '/?tv=1',
  }));
}

/**
 * What is there of a page: the selectors of `has` whose first element is not to be seen, and the heads of its tables. One
 * question instead of one for each: Playwright's locators bring their own script into each new document.
 * @param {import('playwright-core').Page} page @param {Look} look
 * @returns {Promise<{ unseen: string[], heads: string[], rows: number, dead: string[] }>}
 */
export const shown = (page, look) => page.evaluate((selectors) => {
  const flat = (/** @type {Element} */ el) => (el.textContent || '').replace(/\s+/g, ' ').trim();
  const unseen = selectors.filter((selector) => {
    const [, css, text] = /^(.*?)(?::has-text\("(.*)"\))?$/.exec(selector) || [];
    const el = [...document.querySelectorAll(css)].find((e) => !text || flat(e).includes(text));
    const box = el?.getBoundingClientRect();
    return !(el?.checkVisibility({ visibilityProperty: true }) && box && box.width > 0 && box.height > 0);
  });
  const forms = [...document.querySelectorAll('form')];
  return {
    unseen,
    heads: [...document.querySelectorAll('main table thead')].map(flat).sort(),
    rows: document.querySelectorAll('main table tbody tr').length,
    dead: forms.filter((f) => !/^[/#]/.test(f.getAttribute('action') || '') || !f.querySelector('button:not([type=button]), input[type=search]')).map((f) => f.outerHTML.slice(0, 120)),
  };
}, look.chrome ? [...look.has, '#stop-all'] : look.has); // Stop all is on every page

/** Patterns that need no page of their own, and why. */
export const elsewhere = {
  '/password': 'asks for a session: forms.test.mjs signs in and changes the first password',
};

/** Patterns of the router that no page stands for. @param {Look[]} all */
export const missing = (all) => patterns.filter((p) => !all.some((l) => l.pattern === p) && !(p in elsewhere));
