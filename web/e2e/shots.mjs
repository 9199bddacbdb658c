// Pictures of every page of the router, light and dark, wide and on a phone: node shots.mjs [DIR [NAME,NAME...]]. To be
// looked at beside the mocks. A page that pages.mjs does not know is an error.
import { mkdir } from 'node:fs/promises';
import { adminHeaders, base, launch } from './browser.mjs';
import { found, missing, pages } from './pages.mjs';
import { finding } from './story.mjs';

const dir = process.argv[2] || 'shots';
const only = process.argv[3]?.split(',');
await mkdir(dir, { recursive: true });
const browser = await launch();
await finding(browser);
const looks = pages(await found(browser));
const lost = missing(looks);
if (lost.length > 0) console.log('no picture of ' + lost.join(', ') + ': this house has none, or pages.mjs lacks it');
for (const scheme of /** @type {const} */ (['light', 'dark'])) {
  for (const width of [1440, 390]) {
    const options = { viewport: { width, height: width === 390 ? 844 : 1000 }, colorScheme: scheme, deviceScaleFactor: 1 };
    const plain = await browser.newContext(options);
    const admin = await browser.newContext({ ...options, extraHTTPHeaders: adminHeaders });
    for (const look of looks) {
      const name = look.name.replace(/[^a-z0-9]+/gi, '-').toLowerCase();
      if (only && !only.includes(name)) continue;
      const page = await (look.admin ? admin : plain).newPage();
      await page.goto(base + look.path);
      await page.waitForTimeout(400); // charts are drawn after load
      await page.screenshot({ path: `${dir}/${name}-${scheme}-${width}.png`, fullPage: true });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) console.log(`${name} ${scheme} ${width}: ${wide} px too wide`);
      await page.close();
    }
    await plain.close();
    await admin.close();
  }
}
await browser.close();
