// A chat on the page: it starts with one line, its field stays open, and Enter sends the next line.
import { makePng } from '@kernmantle/test-support/files';
import { call } from '@kernmantle/test-support/thread-project';
import { expect } from 'vitest';
import { browserTest, openPage } from './support/browser.ts';
import { openServed } from './support/serve.ts';

browserTest('a chat starts with a line and goes on with the next one', async () => {
  const lines: string[] = [];
  const served = await openServed(
    {},
    {
      assistant: [
        { text: 'first answer' },
        ({ body }) => {
          lines.push(JSON.stringify(body));
          return { text: 'second answer' };
        },
        ({ body }) => {
          lines.push(JSON.stringify(body));
          return { text: 'third answer' };
        },
      ],
    },
  );
  const { page, errors } = await openPage();
  await page.goto(served.link('/'));
  await page.getByRole('button', { name: 'New chat' }).click();
  const field = page.getByLabel('First line of the chat');
  await field.fill('what is here?');
  await field.press('Enter');
  await page.getByText('first answer').first().waitFor();
  const more = page.getByLabel('Follow-up');
  await more.fill('and what else?');
  await more.press('Shift+Enter');
  await more.press('Enter');
  await page.getByText('second answer').first().waitFor();
  // The field is open and empty for the next line.
  await expect.poll(() => page.getByLabel('Follow-up').inputValue()).toBe('');
  expect(lines[0]).toContain('and what else?');
  const page2 = await served.threads.store.query({ runner: 'chat' });
  expect(page2).toMatchObject({ output: { rows: [{ directive: 'bundle:core/assistant' }] } });
  // A long paste becomes a file, which never counts as said.
  await more.focus();
  await page.evaluate(`(() => {
    const data = new DataTransfer();
    data.setData('text/plain', 'row\\n'.repeat(500));
    const init = { clipboardData: data, bubbles: true, cancelable: true };
    document.activeElement.dispatchEvent(new ClipboardEvent('paste', init));
  })()`);
  await page.getByText('pasted-1.txt').waitFor();
  // A dropped file goes with the next line, and one that was removed does not.
  const drop = (name: string, bytes: Uint8Array) =>
    page.evaluate(`(() => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array([${bytes.join()}])], '${name}', { type: 'image/png' }));
      const init = { dataTransfer: data, bubbles: true, cancelable: true };
      const form = document.querySelector('form[aria-label="Message"]');
      const isOver = !form.dispatchEvent(new DragEvent('dragover', init));
      return isOver && !form.dispatchEvent(new DragEvent('drop', init));
    })()`);
  expect(await drop('seen.png', makePng(5, 5))).toBe(true);
  expect(await drop('other.png', makePng(6, 6))).toBe(true);
  await page.getByText('other.png').waitFor();
  await page.getByRole('button', { name: 'Remove pasted-1.txt' }).click();
  await page.getByRole('button', { name: 'Remove other.png' }).click();
  await more.fill('what is in this picture?');
  await more.press('Enter');
  await page.getByText('third answer').first().waitFor();
  const [, sent = ''] = lines;
  expect(sent).toContain(makePng(5, 5).toString('base64'));
  expect(sent).not.toContain(makePng(6, 6).toString('base64'));
  expect(sent).not.toContain('pasted-1.txt');
  expect(errors).toEqual([]);
});

browserTest(
  'the conversation has the page, lines can follow fast, and a summary divides it',
  async () => {
    const text = '## Cause\nsee this:\n```js\nsplit(1)\n```\nthe end';
    const answers = [1, 2, 3, 4, 5, 6].map((count) => ({
      text: `answer ${count} ${'word '.repeat(40)}`,
    }));
    const served = await openServed(
      { 'a.txt': 'a\n' },
      {
        assistant: [
          { tool_calls: [call('fs/read_file', { path: 'a.txt' })] },
          { text },
          ...answers,
          {
            tool_calls: [{ name: 'help', arguments: { action: 'compact', reason: 'the parser' } }],
          },
        ],
      },
    );
    const { page, errors } = await openPage();
    await page.goto(served.link('/'));
    await page.getByRole('button', { name: 'New chat' }).click();
    const field = page.getByLabel('First line of the chat');
    await field.fill('why?');
    await field.press('Enter');
    expect(await page.locator('.message .code').innerText()).toBe('split(1)');
    expect(await page.locator('.message .heading').innerText()).toBe('## Cause');
    expect(await page.locator('.answers, .outcome, .insp').count()).toBe(0);
    // Nothing waits between an answer and the next line.
    const more = page.getByRole('form', { name: 'Message' }).getByRole('textbox');
    for (const [at] of answers.entries()) {
      await more.fill(`line ${at + 1}`);
      await more.press('Enter');
      await page
        .getByText(`answer ${at + 1} word`)
        .first()
        .waitFor();
    }
    await more.fill('make room');
    await more.press('Enter');
    const divider = page.locator('.by-compaction');
    await divider.waitFor();
    expect(await divider.innerText()).toMatch(/made room: turns 1 to \d+ /);
    expect(await page.getByText('not in the model’s view').count()).toBeGreaterThan(1);
    await divider.getByRole('button', { name: /^Show all/ }).click();
    await divider.getByText('files_read').waitFor();
    expect(errors).toEqual([]);
  },
);
