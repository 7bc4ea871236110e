// The page of one thread in a real browser: what was refused and why, a denial from the bar, a limit that
// is raised, a place that a reload keeps, and texts of a model that stay text.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { call, directive, type Play } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { ELSEWHERE, HOSTILE, hostileText } from './support/hostile.ts';
import { bearerOf, openServed, type ServedStage } from './support/serve.ts';

const WRITE =
  '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/>';
const write = (path: string, content = 'a note') => call('fs/write_file', { path, content });

type Wanted = Parameters<typeof directive>[1];

/** A thread of `lead`, and its page open in a browser. */
async function opened(
  wanted: Wanted,
  play: Play,
  before?: (served: ServedStage) => Promise<unknown>,
) {
  const served = await openServed(directive('lead', wanted), play);
  await before?.(served);
  const begun = await served.post('threads', { directive: 'lead', inputs: {} });
  const { thread_id: id } = begun.answer.output as { thread_id: string };
  const watched = await openPage({ viewport: { width: 1440, height: 1200 } });
  await watched.page.goto(served.link(`/t/${id}`));
  await watched.page.locator('h1').waitFor();
  return { served, id, ...watched, pill: watched.page.locator('.title .pill') };
}

const REFUSED: Play = {
  lead: [
    { text: 'I write it down.', tool_calls: [write('notes/a.md'), write('out/a.md')] },
    { text: 'done' },
  ],
};

browserTest('what was refused is seen, opened, filtered, and kept by a reload', async () => {
  const { page, pill, errors, reports } = await opened({ permissions: WRITE }, REFUSED);
  await expect.poll(() => pill.textContent()).toBe('completed');
  const denied = page.locator('.timeline .row').filter({ hasText: 'notes/a.md' });
  await denied.getByText('denied, not granted').waitFor();
  await page.locator('.head .trouble').getByText('1 denied').waitFor();
  // A key leads to it, the inspector says why and what would allow it.
  await page.keyboard.press('e');
  const inspector = page.getByRole('region', { name: 'Selected step' });
  await inspector.getByText(/^Denied/).waitFor();
  expect(await inspector.locator('.gates li').count()).toBe(4);
  await inspector.locator('.args-t').getByText('notes/a.md').waitFor();
  await inspector.getByText('Remedies').waitFor();
  await page.getByRole('button', { name: '1 denied' }).click();
  await expect.poll(() => page.locator('.timeline .row').count()).toBe(2);
  await page.reload();
  await expect.poll(() => page.locator('.timeline .row').count()).toBe(2);
  await inspector.getByText(/^Denied/).waitFor();
  // What it could do beside what it did.
  await page.getByRole('tab', { name: 'Rights' }).click();
  await page.locator('.refusals').getByText('notes/a.md').first().waitFor();
  expect({ errors, reports }).toEqual({ errors: [], reports: [] });
});

browserTest('failed calls are counted in the heading, beside denied ones', async () => {
  const { page, pill } = await opened(
    {
      permissions:
        '<read resource="filesystem" path="notes/**"/><execute resource="tool" id="fs/read_file"/>',
    },
    {
      lead: [
        {
          tool_calls: [
            call('fs/read_file', { path: 'notes/none.md' }),
            call('fs/read_file', { path: 'secret.md' }),
          ],
        },
        { text: 'nothing could be read' },
      ],
    },
  );
  await expect.poll(() => pill.textContent()).toBe('completed');
  await page.locator('.head .trouble').getByText('1 denied, 1 failed').waitFor();
  expect(await pill.getAttribute('class')).toBe('pill idle');
  await expect.poll(() => page.title()).toContain('completed, 1 denied, 1 failed');
  await page.getByRole('button', { name: '1 failed' }).click();
  await expect.poll(() => page.locator('.timeline .row').count()).toBe(2);
  await page.locator('.timeline .row').getByText('notes/none.md').waitFor();
});

browserTest('a provider that cannot be reached is one entry, with its name and place', async () => {
  const { page, pill, served } = await opened({}, {}, ({ provider }) => provider.close());
  await expect.poll(() => pill.textContent()).toBe('failed');
  const place = new URL(served.provider.url).host;
  const entry = page.locator('.timeline .row').filter({ hasText: 'cannot connect' });
  await entry.getByText(/tried \d+ times/).waitFor();
  expect(await entry.count()).toBe(1);
  // The end says no more than how it ended.
  await page.locator('.timeline .row').getByText('failed', { exact: true }).waitFor();
  await page.getByText('Needs attention').locator('..').getByText('1').waitFor();
  expect(await entry.innerText()).toContain(`cannot connect to provider \`anthropic\` at ${place}`);
});

browserTest('a thread shows what it is about, its outputs and its last words', async () => {
  const parts = {
    permissions: WRITE,
    outputs: '<report type="string" required="true">where</report>',
  };
  const served = await openServed(directive('lead', parts), {
    lead: [{ text: 'It is there.\n```json\n{"report": "out/final.md"}\n```' }],
  });
  const message = 'figures of the third quarter';
  const begun = await served.post('threads', { directive: 'lead', inputs: {}, message });
  const { thread_id: id } = begun.answer.output as { thread_id: string };
  const { page } = await openPage();
  await page.goto(served.link());
  // The list, the search and the heading name it.
  await page.locator('.threads .row').getByText(message).waitFor();
  await page.goto(`${served.url}/t/${id}`);
  await page.locator('.head .about').getByText(message).waitFor();
  const result = page.getByRole('region', { name: 'Result' });
  await result.getByText('out/final.md').first().waitFor();
  await result.getByText('It is there.').first().waitFor();
  // On a phone the cards below take nothing of it.
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await result.evaluate((box) => box.scrollHeight - box.clientHeight)).toBeLessThan(2);
});

browserTest(
  'the conversation of a running thread follows it until a person scrolls up',
  async () => {
    const turns = 14;
    const waits: (() => void)[] = [];
    let isOpen = false;
    const { page } = await opened(
      { permissions: WRITE },
      {
        lead: [
          ...Array.from({ length: turns }, (_, at) => async () => {
            if (at === 6 && !isOpen) await new Promise<void>((resolve) => void waits.push(resolve));
            const text = `turn number ${at + 1}\n${'a line\n'.repeat(20)}`;
            return { text, tool_calls: [write(`out/${at}.md`)] };
          }),
          { text: 'the very last words' },
        ],
      },
    );
    await page.getByRole('tab', { name: 'Conversation' }).click();
    const talk = page.getByRole('region', { name: 'Conversation', exact: true }).last();
    await talk.getByText('turn number 6', { exact: false }).first().waitFor();
    await expect.poll(() => waits.length).toBe(1);
    const atEnd = () =>
      talk.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 60);
    await expect.poll(atEnd).toBe(true);
    isOpen = true;
    for (const go of waits) go();
    await talk.getByText('the very last words').waitFor();
    await expect.poll(atEnd).toBe(true);
  },
);

browserTest('a call that waits is denied from the bar, with a reason', async () => {
  const { served, id, page, pill } = await opened(
    { permissions: WRITE, deviation: 'ask_first="true"' },
    { lead: [{ text: 'I write.', tool_calls: [write('out/a.md')] }, { text: 'without it' }] },
  );
  const bar = page.getByRole('region', { name: 'Waits for you' });
  await bar.getByText('fs/write_file', { exact: false }).first().waitFor();
  await bar.getByText(/^required by deviation rule ask_first · /).waitFor();
  await bar.getByRole('button', { name: 'Deny' }).click();
  await bar.getByPlaceholder(/^reason/).fill('not today');
  await bar.getByRole('button', { name: 'Deny' }).click();
  await expect.poll(() => bar.count()).toBe(0);
  await expect.poll(() => pill.textContent()).toBe('completed');
  await page.locator('.row.is-bad').getByText('fs/write_file').waitFor();
  const approvals = await served.threads.store.approvals({});
  expect(approvals.ok && approvals.output.map(({ thread, why }) => ({ thread, why }))).toEqual([
    { thread: id, why: 'not today' },
  ]);
  expect(existsSync(join(served.fixture.root, 'out', 'a.md'))).toBe(false);
});

browserTest('a thread at its limit gets more room and goes on', async () => {
  const { page, pill } = await opened(
    { permissions: WRITE, limits: '<turns>1</turns>' },
    { lead: [{ text: 'first', tool_calls: [write('out/a.md')] }, { text: 'and done' }] },
  );
  await expect.poll(() => pill.textContent()).toBe('limit');
  await page.getByRole('button', { name: 'Resume…' }).click();
  const turns = page.getByLabel('new limit of turns');
  const resume = page.getByRole('button', { name: 'Resume', exact: true });
  await turns.fill('1');
  await page.getByText('must be above', { exact: false }).waitFor();
  expect(await resume.isDisabled()).toBe(true);
  await turns.fill('4');
  expect(await page.locator('.raise-sheet .command code').textContent()).toContain('--turns 4');
  await resume.click();
  await expect.poll(() => pill.textContent()).toBe('completed');
  await expect.poll(() => page.locator('.timeline .row.turn').count()).toBe(2);
});

browserTest('who may only look finds the acts off, with the reason', async () => {
  const served = await openServed(directive('lead', { permissions: WRITE }), REFUSED);
  const begun = await served.post('threads', { directive: 'lead', inputs: {} });
  const { thread_id: id } = begun.answer.output as { thread_id: string };
  const { page } = await openPage();
  await page.goto(`${served.url}/login`);
  const { authorization = '' } = bearerOf(served.fixture, 'view');
  await page.locator('input').first().fill(authorization.slice('Bearer '.length));
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('link', { name: /^Threads/ }).waitFor();
  await page.goto(`${served.url}/t/${id}`);
  const stop = page.locator('.acts').getByRole('button', { name: 'Stop…' });
  await stop.waitFor();
  expect(await stop.isDisabled()).toBe(true);
  expect(await stop.getAttribute('title')).toBe(
    'your session has the role `view`; role `steer` is required',
  );
});

browserTest('no text of a model or a tool is more than text', async () => {
  const texts = Object.values(HOSTILE).join('\n');
  const { served, page, pill, requests, errors, reports, dialogs } = await opened(
    { permissions: WRITE },
    {
      lead: [{ text: texts, tool_calls: [write('out/a.md', hostileText())] }, { text: texts }],
    },
  );
  await expect.poll(() => pill.textContent()).toBe('completed');
  const check = async () => {
    expect(await page.evaluate('document.images.length')).toBe(0);
    expect(await page.evaluate('globalThis.wasRun')).toBeUndefined();
    expect(await page.evaluate('document.querySelectorAll("iframe, dialog, form").length')).toBe(0);
    const links = await page.evaluate<string[]>('[...document.links].map((link) => link.href)');
    expect(links.every((link) => link.startsWith(served.url))).toBe(true);
    const shown = await page.evaluate<string>('document.querySelector("main").textContent');
    expect(/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u001b]/u.test(shown)).toBe(false);
  };
  await check();
  for (const row of ['Turn 1', 'fs/write_file']) {
    await page.locator('.timeline .row').filter({ hasText: row }).first().click();
    await page
      .getByRole('region', { name: 'Step in detail' })
      .locator('.foreign')
      .first()
      .waitFor();
    await check();
    await page.getByRole('tab', { name: 'Raw' }).click();
    await check();
  }
  await page.getByRole('tab', { name: 'Conversation' }).click();
  await page.locator('.message').first().waitFor();
  await check();
  expect(requests.filter((line) => line.includes(ELSEWHERE))).toEqual([]);
  expect({ errors, reports, dialogs }).toEqual({ errors: [], reports: [], dialogs: [] });
});
