// What a person does to a thread that runs, in a real browser: interrupt, stop, kill what does not answer,
// replay; what each kind of approval shows; and what the page says while nobody answers it, or of what is gone.
import type { ScriptedReply } from '@kernmantle/core/llm';
import { call, directive, hook, type Play, READ } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { openServed } from './support/serve.ts';

/** A model that answers when it is told to. */
function slow() {
  const asked: ((reply: ScriptedReply) => void)[] = [];
  const say = () => new Promise<ScriptedReply>((resolve) => void asked.push(resolve));
  return {
    say,
    asked: () => asked.length,
    answer: (reply: ScriptedReply) => asked.at(-1)?.(reply),
  };
}

type Wanted = Parameters<typeof directive>[1];

/** A thread of `lead`, and its page open in a browser. */
async function opened(wanted: Wanted, play: Play, files: Record<string, string> = {}) {
  const served = await openServed({ ...directive('lead', wanted), ...files }, play);
  const begun = await served.post('threads', { directive: 'lead', inputs: {} });
  if (!begun.answer.ok) throw new Error(begun.answer.error?.detail.message);
  const { thread_id: id } = begun.answer.output as { thread_id: string };
  const watched = await openPage({ viewport: { width: 1440, height: 900 } });
  const { page } = watched;
  await page.goto(served.link(`/t/${id}`));
  await page.locator('h1').waitFor();
  return { served, id, ...watched, pill: page.locator('.title .pill') };
}

browserTest('a reply is interrupted, and a thread stopped, from its page', async () => {
  const model = slow();
  const { page, pill } = await opened({ permissions: READ }, { lead: [model.say] });
  await expect.poll(model.asked).toBe(1);
  await page.getByRole('button', { name: /^More/ }).click();
  await page.getByRole('button', { name: 'Interrupt the reply' }).click();
  await expect.poll(model.asked).toBe(2);
  await page
    .locator('.timeline .row')
    .filter({ hasText: /interrupt/i })
    .first()
    .waitFor();
  // What was broken off is not under way any more.
  const turns = page.locator('.timeline .row.turn');
  await expect.poll(() => turns.count()).toBe(2);
  expect(await turns.allTextContents()).toEqual([
    expect.stringContaining('no reply'),
    expect.stringContaining('reply in progress'),
  ]);
  await page.getByRole('button', { name: 'Stop…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click();
  model.answer({ text: 'over' });
  await expect.poll(() => pill.textContent()).toBe('terminated');
});

browserTest('a thread is forked from its page, and the page opens the fork', async () => {
  const { id, page, pill } = await opened(
    { permissions: READ },
    { lead: [{ text: 'first' }, { text: 'second' }] },
  );
  await expect.poll(() => pill.textContent()).toBe('completed');
  const fork = async (text: string) => {
    await page.getByRole('button', { name: /^More/ }).click();
    await page.getByRole('button', { name: 'Fork…' }).click();
    const dialog = page.getByRole('dialog');
    if (text !== '') await dialog.getByLabel('Message').fill(text);
    await dialog.getByRole('button', { name: 'Fork', exact: true }).click();
    return dialog;
  };
  const dialog = await fork('');
  await dialog.getByText(/say what is next with a message/).waitFor();
  await dialog.getByLabel('At').fill('turn 1');
  await dialog.getByText('must be turn:N, an event number or last').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await fork('and more');
  await expect.poll(() => page.url()).not.toContain(id);
  await expect.poll(() => pill.textContent()).toBe('completed');
  await page
    .locator('.timeline .row')
    .filter({ hasText: `forked from ${id}` })
    .first()
    .waitFor();
  if (process.env.KERNMANTLE_SHOTS) {
    await page.screenshot({ path: `${process.env.KERNMANTLE_SHOTS}/fork.png` });
    await page.getByRole('button', { name: /^More/ }).click();
    await page.getByRole('button', { name: 'Fork…' }).click();
    await page.screenshot({ path: `${process.env.KERNMANTLE_SHOTS}/fork-sheet.png` });
  }
});

browserTest('a thread that does not answer a stop can be killed after ten seconds', async () => {
  const model = slow();
  const { id, page, pill } = await opened({ permissions: READ }, { lead: [model.say] });
  await expect.poll(model.asked).toBe(1);
  // Nobody hears it.
  await page.route('**/stop', (route) =>
    route.fulfill({
      json: { ok: true, output: { thread_id: id, kind: 'terminate', status: 'running' } },
    }),
  );
  await page.getByRole('button', { name: 'Stop…' }).click();
  const dialog = page.getByRole('dialog');
  expect(await dialog.getByRole('button', { name: 'Kill', exact: true }).count()).toBe(0);
  await dialog.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByText('The thread did not stop within 10 s.').waitFor();
  await page.getByRole('button', { name: 'Kill…' }).click();
  await dialog.getByRole('button', { name: 'Kill', exact: true }).click();
  await expect.poll(() => pill.textContent()).toBe('killed');
  model.answer({ text: 'too late' });
});

browserTest('a replay says whether it would go the same way', async () => {
  const { page, pill } = await opened(
    { permissions: READ },
    { lead: [{ tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] }, { text: 'done' }] },
  );
  await expect.poll(() => pill.textContent()).toBe('completed');
  await page.getByRole('button', { name: /^More/ }).click();
  await page.getByRole('button', { name: 'Replay…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay', exact: true }).click();
  await page.getByText(/^ ?The same: \d+ of \d+ events/).waitFor();
});

browserTest('who is not connected sees what there was, and cannot act', async () => {
  const model = slow();
  const { served, page } = await opened({ permissions: READ }, { lead: [model.say] });
  await expect.poll(model.asked).toBe(1);
  const stop = page.locator('.acts').getByRole('button', { name: 'Stop…' });
  await expect.poll(() => stop.isEnabled()).toBe(true);
  await served.close();
  await page.getByText('not connected since', { exact: false }).waitFor();
  expect(await stop.isDisabled()).toBe(true);
  expect(await page.locator('.timeline .row').count()).toBeGreaterThan(0);
  model.answer({ text: 'over' });
});

browserTest('a hook shows the condition that it was asked under', async () => {
  const { page, pill } = await opened(
    { permissions: READ, hooks: hook('event.code == "permission_denied"', 'judge') },
    {
      lead: [{ tool_calls: [call('fs/read_file', { path: 'src/x.txt' })] }, { text: 'done' }],
    },
    {
      '.ai/directives/judge.md': `
<directive name="judge" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">continue|fail</action><context type="object"/></outputs>
  <process><script>/return { "action": "continue", "context": {} }</script></process>
</directive>`,
    },
  );
  await expect.poll(() => pill.textContent()).toBe('completed');
  await page.locator('.timeline .row.is-hook').first().click();
  const inspector = page.getByRole('region', { name: 'Selected step' });
  await inspector.getByText('event.code == "permission_denied"').waitFor();
});

const escalate = (more: object): ScriptedReply => ({
  text: 'I need a little more.',
  tool_calls: [
    { id: 'h1', name: 'help', arguments: { action: 'escalate', reason: 'I need it', ...more } },
  ],
});

browserTest('every kind of approval is shown with what it is about', async () => {
  const say = { text: 'done' };
  const served = await openServed(
    {
      ...directive('lead', { permissions: READ }),
      ...directive('asker', { permissions: READ }),
      ...directive('limited', {
        permissions: READ,
        limits: '<turns>1</turns>',
        hooks: hook('event.name == "limit"', 'more'),
      }),
      '.ai/directives/more.md': `
<directive name="more" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <outputs><action type="string">x</action><context type="object"/></outputs>
  <process><script>
/var @said = @help("escalate", { "limits": { "turns": "2" }, "reason": "a little more" })
/return { "action": "continue", "context": { "limits": { "turns": 2 } } }
</script></process>
</directive>`,
      ...directive('guarded', {
        permissions: READ,
        guards: '<guard name="look-first" on="op:tool:fs/read_file"><ask>may it?</ask></guard>',
      }),
      '.ai/policy.yaml': 'limits: { turns: 7 }\n',
    },
    {
      lead: [escalate({ capability: 'process.spawn' }), say],
      asker: [escalate({ reason: 'which one?' }), say],
      limited: [
        { text: 'I look.', tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] },
        say,
      ],
      guarded: [
        { text: 'I look.', tool_calls: [call('fs/read_file', { path: 'notes/a.txt' })] },
        say,
      ],
    },
  );
  for (const name of ['lead', 'asker', 'limited', 'guarded']) {
    const begun = await served.post('threads', { directive: name, inputs: {} });
    if (!begun.answer.ok) throw new Error(begun.answer.error?.detail.message);
  }
  await expect
    .poll(async () => {
      const all = await served.threads.store.approvals({ state: 'pending' });
      return all.ok ? all.output.length : 0;
    })
    .toBe(4);
  const { page } = await openPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(served.link());
  await page.getByRole('link', { name: /^Approvals/ }).click();
  const review = page.getByRole('region', { name: 'Review' });
  const open = (name: string) => page.locator('.picks a').filter({ hasText: name }).click();
  // What the model says for itself stands in a frame, never as a fact or a heading.
  const framed = (author: string) => review.locator('figure.words').filter({ hasText: author });
  await open('process.spawn');
  await review.getByText('The right goes beyond what the directive declares.').waitFor();
  await framed('Reason from the model').getByText('I need it').waitFor();
  expect(await review.getByRole('button', { name: /^Approve/ }).isDisabled()).toBe(true);
  await open('which one?');
  await review.getByRole('heading', { name: 'asker asks' }).waitFor();
  await framed('The model asks').getByText('which one?').waitFor();
  await open('limit turns');
  await review.getByRole('row', { name: /^turns 1 2 7 \(policy\)$/ }).waitFor();
  await open('fs/read_file');
  await review.getByText('fs.read notes/**').first().waitFor();
  await review.getByText(/^call 1 of /).waitFor();
});

browserTest('a thread that was pruned says so, and the list goes on', async () => {
  const { served, page, pill } = await opened({ permissions: READ }, { lead: [{ text: 'done' }] });
  await expect.poll(() => pill.textContent()).toBe('completed');
  await served.threads.store.prune({ before: Date.now() + 60_000 });
  await page.reload();
  await page.getByText('This thread was pruned').waitFor();
  await page.getByRole('link', { name: 'All threads' }).click();
  await page.getByText(/^(?:All threads were pruned|No thread has run yet)$/).waitFor();
  await page.goto(`${served.url}/t/nobody`);
  await page.getByText('Thread not found').waitFor();
  const mistyped = await page.goto(`${served.url}/nowhere/at/all`);
  expect(mistyped?.status()).toBe(404);
  await page.getByText('Page not found').waitFor();
});
