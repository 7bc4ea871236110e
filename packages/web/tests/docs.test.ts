// docs/web.md, followed word for word. What serves is a process that goes on beside the other commands.
import { runCommand, splitWords } from '@kernmantle/test-support/command-line';
import { blocksOf, matches, readPage, stepsOf } from '@kernmantle/test-support/docs-page';
import { makeFixture } from '@kernmantle/test-support/project';
import { expect, onTestFinished, test } from 'vitest';
import { login, spawnWeb } from './support/serve.ts';

test('its commands do what is shown below them', async () => {
  const fixture = makeFixture();
  onTestFinished(fixture.remove);
  const steps = blocksOf(readPage('docs/web.md'))
    .filter(({ kind }) => kind === 'sh')
    .flatMap(stepsOf);
  expect(steps).toHaveLength(5);
  for (const { command, shown = '' } of steps) {
    if (command === 'km web') {
      const web = await spawnWeb(fixture);
      await expect.poll(() => matches(shown, web.said())).toBe(true);
      await login(web.url, web.link);
    } else {
      const ran = await runCommand(splitWords(command.slice(3)), fixture.root, fixture.env);
      if (!matches(shown, ran.output)) expect(ran.output).toBe(shown);
      expect(ran.code === 0).toBe(!shown.startsWith('error:'));
    }
  }
});
