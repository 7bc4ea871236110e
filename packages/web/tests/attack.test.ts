// Texts that want to be more than text, on every page that shows what models, tools, files and people
// of a project wrote: nothing is drawn, loaded, clicked or run, and nothing passes for the page itself. `npm test`
// looks at three pages, others every day; `npm run soak` at all of them.
import { ofToday, timeoutMs } from '@kernmantle/test-support/soak';
import { call, directive, type Play } from '@kernmantle/test-support/thread-project';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { browserTest, openPage, type WatchedPage } from './support/browser.ts';
import { HOSTILE, hostileArguments, hostileText, hugeLine } from './support/hostile.ts';
import { openServed, type ServedStage } from './support/serve.ts';

const RIGHTS = [
  '<read resource="filesystem" path="notes/**"/>',
  '<write resource="filesystem" path="out/**"/>',
  ...['fs/read_file', 'fs/write_file', 'fs/grep'].map(
    (id) => `<execute resource="tool" id="${id}"/>`,
  ),
].join('');
const ASK =
  '<guard name="look-first" on="op:tool:fs/write_file"><ask>&lt;img src=x&gt; ◆ Approve once</ask></guard>';
const IMAGE = HOSTILE['markup.image'] ?? '';

const PLAY: Play = {
  lead: [
    { text: hostileText(), tool_calls: [call('fs/read_file', { path: 'notes/evil.txt' })] },
    {
      text: HOSTILE['imitations.bar'] ?? '',
      tool_calls: [call('fs/read_file', { path: 'notes/huge.txt' })],
    },
    { text: 'x', tool_calls: [call('fs/grep', { pattern: IMAGE, path: 'notes' })] },
    { text: 'x', tool_calls: [call(HOSTILE['markup.script'] ?? '', hostileArguments())] },
    {
      text: HOSTILE['imitations.review'] ?? '',
      tool_calls: [call('fs/write_file', { path: 'out/a.txt', content: hostileText() })],
    },
  ],
};

const FILES = {
  ...directive('lead', { permissions: RIGHTS, guards: ASK }),
  'notes/evil.txt': hostileText(),
  'notes/huge.txt': hugeLine(),
  '.ai/knowledge/evil.md': `---\ntitle: ${JSON.stringify(IMAGE)}\ndescription: ${JSON.stringify(HOSTILE['markdown.picture'])}\nversion: "1.0.0"\n---\n${hostileText()}\n`,
  'scripts/evil.mld': `show \`${IMAGE}\`\n`,
};

/** What no text may have made: each is a list of offences. */
const LOOK = `(() => {
  const hidden = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\u{e0000}-\\u{e007f}]/u;
  const strange = [...document.querySelectorAll('iframe, object, embed, video, audio, base, style:not([data-own]), script:not([src]), svg image, svg script, [srcdoc], [onerror], [onload], [onclick]')];
  const leaving = [...document.querySelectorAll('[href], [src], [action]')].filter((element) => {
    const address = element.getAttribute('href') ?? element.getAttribute('src') ?? element.getAttribute('action') ?? '';
    return !address.startsWith('#') && new URL(address, location.href).origin !== location.origin;
  });
  return {
    images: document.images.length,
    wasRun: globalThis.wasRun ?? 'no',
    strange: strange.map((element) => element.outerHTML.slice(0, 100)),
    leaving: leaving.map((element) => element.outerHTML.slice(0, 100)),
    hidden: hidden.exec(document.body.innerText)?.[0].codePointAt(0)?.toString(16) ?? 'none',
    title: hidden.test(document.title) || /[<>]|approved/i.test(document.title) ? document.title : 'clean',
    approves: [...document.querySelectorAll('button')].filter((one) => /^Approve/.test(one.textContent)).length,
  };
})()`;
const CLEAN = {
  images: 0,
  wasRun: 'no',
  strange: [],
  leaving: [],
  hidden: 'none',
  title: 'clean',
  approves: 0,
};

const look = async (page: Page, where: string, more: object = {}): Promise<void> => {
  expect({ where, ...(await page.evaluate<object>(LOOK)) }).toEqual({ where, ...CLEAN, ...more });
};

/** Nothing left for elsewhere, nothing was stopped by the policy, nothing popped up. */
function expectInert({ requests, reports, dialogs, errors }: WatchedPage, url: string): void {
  expect(requests.filter((line) => !line.split(' ')[1]?.startsWith(`${url}/`))).toEqual([]);
  expect({ reports, dialogs, errors }).toEqual({ reports: [], dialogs: [], errors: [] });
}

interface Attacked {
  readonly served: ServedStage;
  readonly watched: WatchedPage;
  /** The thread that wrote the hostile texts. It waits for a person. */
  readonly id: string;
}

/** Opens the page at `path` of the server, and waits until it is there. */
async function open({ served, watched }: Attacked, path: string): Promise<void> {
  await watched.page.goto(`${served.url}/${path}`);
  await watched.page.locator('main').waitFor();
  await watched.settled();
}

async function lookAtList(attacked: Attacked): Promise<void> {
  const { page } = attacked.watched;
  await open(attacked, '');
  await page.getByRole('row').filter({ hasText: 'fs/write_file' }).first().waitFor();
  await look(page, 'threads');
}

async function lookAtRows(attacked: Attacked): Promise<void> {
  const { page, settled } = attacked.watched;
  await open(attacked, `t/${attacked.id}`);
  const rows = page.getByRole('grid').first().getByRole('row');
  await rows.filter({ hasText: 'waits for you' }).first().waitFor();
  const count = await rows.count();
  expect(count).toBeGreaterThan(8);
  for (let at = 0; at < count; at++) {
    await rows.nth(at).click();
    await settled();
    await look(page, `row ${at}`);
  }
  // Where nothing special is in it, a text is one node.
  await rows.filter({ hasText: 'fs/grep' }).first().click();
  const argument = page.getByRole('region', { name: 'Selected step' }).locator('.foreign');
  const nodes = argument.filter({ hasText: 'onerror' }).first();
  await nodes.waitFor();
  expect(await nodes.evaluate((span) => [span.textContent, span.childNodes.length])).toEqual([
    IMAGE,
    1,
  ]);
}

async function lookAtTab(attacked: Attacked, tab: string): Promise<void> {
  const { page } = attacked.watched;
  await open(attacked, `t/${attacked.id}?tab=${tab}`);
  await page.getByRole('tab', { selected: true }).waitFor();
  if (tab === 'conversation') await page.getByText('7F3A-91C2').first().waitFor();
  await look(page, tab);
}

async function lookAtReview(attacked: Attacked): Promise<void> {
  const { page } = attacked.watched;
  await open(attacked, 'approvals');
  await page.locator('.picks a').first().click();
  await page.getByRole('button', { name: /^Approve/ }).waitFor();
  await look(page, 'review', { approves: 1 });
}

const lookAt = (path: string) => async (attacked: Attacked) => {
  await open(attacked, path);
  await look(attacked.watched.page, path);
};

const PAGES: Readonly<Record<string, (attacked: Attacked) => Promise<void>>> = {
  threads: lookAtList,
  rows: lookAtRows,
  conversation: (attacked) => lookAtTab(attacked, 'conversation'),
  rights: (attacked) => lookAtTab(attacked, 'rights'),
  'cost of a thread': (attacked) => lookAtTab(attacked, 'cost'),
  events: (attacked) => lookAtTab(attacked, 'events'),
  review: lookAtReview,
  items: lookAt('items'),
  'an item': lookAt('items/knowledge/evil'),
  cost: lookAt('cost'),
  scripts: lookAt('scripts'),
  health: lookAt('health'),
  memory: lookAt('memory'),
  find: lookAt('?find=img'),
};
const TODAY = ofToday(Object.entries(PAGES), 3);

browserTest(
  `hostile texts stay texts: ${TODAY.map(([name]) => name).join(', ')}`,
  async () => {
    const served = await openServed(FILES, PLAY);
    const begun = await served.post('threads', { directive: 'lead', inputs: {} });
    const { thread_id: id } = begun.answer.output as { thread_id: string };
    const watched = await openPage({ viewport: { width: 1440, height: 900 } });
    await watched.page.goto(served.link());
    const waits = async () => (await served.get(`threads/${id}`)).answer.output;
    await expect.poll(waits).toMatchObject({ thread: { status: 'waiting' } });
    await watched.page.locator('nav').first().waitFor();
    for (const [, lookAtPage] of TODAY) await lookAtPage({ served, watched, id });
    expectInert(watched, served.url);
  },
  timeoutMs(180_000),
);
