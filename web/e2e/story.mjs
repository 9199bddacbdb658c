// What the story of the demo does not bring by itself: a drill that fails, and so a finding. node story.mjs makes it where
// the house has none; CONFIG is where its documents are.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { base, launch, until, watched } from './browser.mjs';

const scenario = `apiVersion: breakwater/v1
kind: Scenario
id: story-inventory
title: One read of inventory in five is answered 500, which is not tried again
target: {service: inventory, routes: [inventory-get]}
sample: {percent: "20%", key: attempt, seed: auto}
phases: {baseline: 5s, inject: 15s, recover: 5s}
faults:
  - {id: broken, error: {status: 500}}
hypothesis:
  during:
    - {id: d1, sli: inventory.error_rate, op: "<=", value: "4%"}
  after:
    - {id: a1, sli: inventory.success, op: ">=", value: "95%", window: 5s, within: 1m}
stop:
  - {sli: inventory.error_rate, op: ">", value: "60%", for: 15s}
on_fail: {finding: {severity: high, owner: team-inventory, due: 14d}}
accept: [cost, no_fallback, no_match, alerts_away, no_baseline]
`;

/** @param {import('playwright-core').Browser} browser */
export async function finding(browser) {
  const { context, page } = await watched(browser);
  const stands = async () => {
    await page.goto(base + '/findings');
    return await page.locator('main tbody a[href^="/findings/"]').count() > 0;
  };
  if (!(await stands())) {
    assert.ok(process.env.CONFIG, 'CONFIG must name the directory of the documents');
    writeFileSync(join(process.env.CONFIG, 'story.yaml'), scenario);
    await until('control takes the scenario in', async () => (await page.goto(base + '/scenarios/story-inventory'))?.status() === 200, 30);
    await page.locator('button:has-text("Run now")').click();
    await page.waitForURL(/\/runs\//);
    await until('the finding stands', stands, 120);
  }
  await context.close();
}

if (process.argv[1] === import.meta.filename) {
  const browser = await launch();
  await finding(browser).finally(() => browser.close());
}
