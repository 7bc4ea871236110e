// Every page, wide and narrow, light and dark: nothing that keeps people out, and nothing wider than the
// screen.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect } from 'vitest';
import { directive, READ, read, rows, run } from '../support/thread-project.ts';
import { browserTest, launchBrowser, openPage } from './support/browser.ts';
import { openServed } from './support/serve.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const FILES = {
  ...directive('greet', { permissions: READ, limits: '<turns>2</turns>' }),
  'careful.mld': '/show `hello`\n',
  '../home/policy.yaml': 'unsigned: allow\nsurfaces: { web: { directives: all } }\n',
};
const PAGES = [
  '/',
  '/approvals',
  '/cost',
  '/items',
  '/items/directive/greet',
  '/scripts',
  '/health',
];
const LOOKS = [
  { width: 1440, height: 900, colorScheme: 'light' },
  { width: 1440, height: 900, colorScheme: 'dark' },
  { width: 390, height: 844, colorScheme: 'light' },
  { width: 390, height: 844, colorScheme: 'dark' },
] as const;

interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

browserTest(
  'no page has a serious finding, whatever it is looked at with',
  async () => {
    const served = await openServed(FILES, { greet: [read('notes/a.txt'), read('../x')] });
    await run(served, 'greet').catch(() => undefined);
    const [thread] = await rows(served);
    const paths = [...PAGES, `/t/${thread?.id}`];
    const browser = await launchBrowser();
    const wrong: string[] = [];
    for (const { colorScheme, ...viewport } of LOOKS) {
      // The policy of the page would not let the checker in; nothing else is looser.
      const { page } = await openPage({ browser, viewport, colorScheme, bypassCSP: true });
      await page.goto(served.link());
      for (const path of paths) {
        await page.goto(`${served.url}${path}`);
        await page.locator('main h1, main h2').first().waitFor({ state: 'attached' });
        await expect.poll(() => page.locator('[aria-busy=true]').count()).toBe(0);
        await page.evaluate(AXE);
        const { violations } = await page.evaluate<{ violations: Finding[] }>(
          "axe.run(document, { resultTypes: ['violations'] })",
        );
        for (const { id, impact, nodes } of violations) {
          if (impact !== 'serious' && impact !== 'critical') continue;
          wrong.push(
            `${path} ${viewport.width} ${colorScheme} ${id}: ${nodes[0]?.html.slice(0, 200)}`,
          );
        }
        const over = await page.evaluate<number>(
          'document.documentElement.scrollWidth - innerWidth',
        );
        if (over > 0) wrong.push(`${path} ${viewport.width}: ${over} px too wide`);
      }
      await page.context().close();
    }
    expect(wrong).toEqual([]);
  },
  240_000,
);
