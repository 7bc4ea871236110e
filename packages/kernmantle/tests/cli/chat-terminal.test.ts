// `km chat` in a real terminal: tmux draws it, and the tests type keys and read the screen. The model is a scripted
// provider. Each test runs at 80x24 or 40x15.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { getOwn } from '@kernmantle/core/base';
import { type ScriptedReply, startScriptedProvider } from '@kernmantle/core/llm';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { call } from '@kernmantle/test-support/thread-project';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';

const KM = join(import.meta.dirname, '../../../../bin/km.js');
const HAS_TMUX = spawnSync('tmux', ['-V']).status === 0;
const at = test.skipIf(!HAS_TMUX);

type Script = Parameters<typeof startScriptedProvider>[0];

async function open(script: Script): Promise<Fixture> {
  const provider = await startScriptedProvider(script);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const fixture = makeFixture({ '../home/policy.yaml': TRUSTING, 'notes/a.txt': 'a\n' });
  const { url } = provider.output;
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'sk-test-12345678' });
  onTestFinished(async () => {
    await provider.output.close();
    fixture.remove();
  });
  return fixture;
}

/** Waits longer than the 300 ms without keys that an approval request asks for, which is what these tests are about. */
async function afterPause(): Promise<void> {
  for (let rest = 8; rest > 0; rest--) await sleep(50);
}

/** Returns the processes that a process started. */
const childrenOf = (pid: string): string[] =>
  spawnSync('pgrep', ['-P', pid]).stdout.toString().split('\n').filter(Boolean);

/** Starts `km chat` in a terminal. `until` waits for a text on the screen and returns the screen. */
async function chat({ root, home, env }: Fixture, size: string, words = '') {
  const [columns = '80', rows = '24'] = size.split('x');
  const socket = join(home, `tmux-${Math.random().toString(36).slice(2)}`);
  const tmux = (...args: string[]): string =>
    execFileSync('tmux', ['-S', socket, '-f', '/dev/null', ...args], {
      cwd: root,
      env: { ...env, TERM: 'xterm-256color', LC_ALL: 'C.UTF-8' },
    }).toString();
  const line = `'${process.execPath}' '${KM}' chat ${words}; code=$?; stty -a > stty; echo "exit=$code"; sleep 1000`;
  tmux('new-session', '-d', '-x', columns, '-y', rows, '-s', 'c', `echo $$ > pid; ${line}`);
  onTestFinished(async () => {
    const running = childrenOf(readFileSync(join(root, 'pid'), 'utf8').trim());
    spawnSync('tmux', ['-S', socket, 'kill-server']);
    // The chat writes its ending into the folder of the test.
    while (running.some((pid) => existsSync(`/proc/${pid}`))) await sleep(50);
  });
  const screen = (): string => tmux('capture-pane', '-p', '-t', 'c');
  async function until(text: string | RegExp): Promise<string> {
    for (;;) {
      const now = screen();
      if (typeof text === 'string' ? now.includes(text) : text.test(now)) return now;
      await sleep(50);
    }
  }
  const keys = (...list: string[]): void => void tmux('send-keys', '-t', 'c', ...list);
  const type = (text: string): void => void tmux('send-keys', '-t', 'c', '-l', text);
  await until(/\bready\b/);
  return { tmux, screen, until, keys, type, say: (text: string) => (type(text), keys('Enter')) };
}

/** Returns the last message of a person in a request. */
const heard = (body: unknown): string => JSON.stringify(getOwn(body, 'messages') ?? null);
const write = (path: string, content = 'x\n'): ScriptedReply => ({
  tool_calls: [call('fs/write_file', { path, content })],
});
const SIZES = ['80x24', '40x15'];
const LONG = timeoutMs(90_000);

at.each(SIZES)(
  'at %s several rows, a paste and a completion reach the model, and code is set apart',
  async (size) => {
    const requests: string[] = [];
    const fixture = await open(({ body }) => {
      requests.push(heard(body));
      return { text: '# Title\nsome text\n```js\nconst a = 1\n```\nthe end' };
    });
    const { tmux, until, keys, type } = await chat(fixture, size);
    type('first row');
    keys('M-Enter');
    type('second row');
    keys('C-j');
    type('third row @no');
    keys('Tab');
    await until('@notes/');
    keys('C-w');
    fixture.write(
      'paste.txt',
      Array.from({ length: 500 }, (_, n) => `row ${n} evil.example`).join('\n'),
    );
    tmux('load-buffer', join(fixture.root, 'paste.txt'));
    tmux('paste-buffer', '-p', '-t', 'c');
    await until('[pasted 500 lines]');
    keys('Enter');
    await until('the end');
    const screen = await until(/\bready\b/);
    expect(screen).toContain('│ const a = 1');
    expect(requests[0]).toContain('first row\\nsecond row\\nthird row');
    expect(requests[0]).toContain('row 499 evil.example');
    expect(screen).toContain('untrusted');
  },
  LONG,
);

at(
  'a pasted address vouches for nothing, and one of own words does',
  async () => {
    const fixture = await open(({ body }) => {
      const all = heard(body);
      const count = all.split('tool_result').length;
      return count > (all.includes('again') ? 3 : 2) ? { text: 'done' } : write('deep/evil.txt');
    });
    // The rule asks about paths that no person named.
    const { tmux, until, keys, type, say } = await chat(fixture, '80x24');
    fixture.write('paste.txt', `${'filler\n'.repeat(10)}deep/evil.txt\n`);
    tmux('load-buffer', join(fixture.root, 'paste.txt'));
    const paste = () => tmux('paste-buffer', '-p', '-t', 'c');
    type('do it ');
    paste();
    await until('[pasted 11 lines]');
    keys('Enter');
    const asked = await until('[?]');
    expect(asked).toContain('no trusted source found');
    await afterPause();
    keys('d', 'Enter');
    await until('done');
    type('again ');
    paste();
    type(' ');
    say('/own');
    await until('own words');
    keys('Enter');
    const second = await until(/allow it[^]*\[\?\]/);
    expect(second.slice(second.lastIndexOf('›'))).not.toContain('no trusted source found');
  },
  LONG,
);

at.each(SIZES)(
  'at %s a request is answered by one key, and not by Enter',
  async (size) => {
    const fixture = await open(({ body }) =>
      heard(body).includes('"written"') || heard(body).split('tool_result').length > 2
        ? { text: 'finished' }
        : write('a.txt'),
    );
    const { until, keys, type, say } = await chat(fixture, size);
    say('write it');
    type('kept text');
    await until('[?]');
    const file = join(fixture.root, 'a.txt');
    await afterPause();
    keys('Enter');
    await afterPause();
    expect(statSync(file, { throwIfNoEntry: false })).toBeUndefined();
    keys('o');
    const screen = await until('finished');
    expect(readFileSync(file, 'utf8')).toBe('x\n');
    expect(screen).toMatch(/› kept text/);
  },
  LONG,
);

const ENDLESS: ScriptedReply = { text: 'and so on '.repeat(3000), pace_ms: 20, repeat: true };

at(
  'Esc interrupts a stream, a resize redraws, SIGTERM restores the terminal, and the history lasts',
  async () => {
    const fixture = await open(({ body }) =>
      heard(body).includes('be short') ? { text: 'short reply' } : ENDLESS,
    );
    const first = await chat(fixture, '80x24');
    first.say('tell me all');
    await first.until('and so on and so on');
    first.keys('Escape');
    await first.until('● interrupted');
    first.tmux('resize-window', '-t', 'c', '-x', '40', '-y', '15');
    first.say('be short');
    await first.until('short reply');
    await first.until(/\bready\b/);
    expect(first.screen().split('───').length).toBeGreaterThan(1);
    expect(first.screen().match(/^› ?$/gm)).toHaveLength(1);
    first.say('a secret sk-test-12345678');
    await first.until(/12345678\s+short reply[^]*ready/);
    const [pid] = childrenOf(readFileSync(join(fixture.root, 'pid'), 'utf8').trim());
    process.kill(Number(pid), 'SIGTERM');
    const over = await first.until('exit=130');
    expect(readFileSync(join(fixture.root, 'stty'), 'utf8')).toMatch(/ icanon [^]* echo /);
    expect(over).toContain('km chat --resume');
    const file = join(fixture.root, '.ai/state/chat-history');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8')).not.toContain('sk-test');
    const second = await chat(fixture, '40x15', '--resume last');
    expect(second.screen()).toContain('short reply');
    second.keys('Up');
    await second.until('› be short');
    second.keys('Up');
    await second.until('› tell me all');
  },
  LONG,
);

at(
  'no escape sequence of a model arrives at the terminal',
  async () => {
    const sequences = fc.sample(
      fc.tuple(
        fc.constantFrom(
          '\u001b[',
          '\u001b]',
          '\u001bP',
          '\u001b(',
          '\u009b',
          '\u0007',
          '\u001b',
          '\u0090',
        ),
        fc.string({ maxLength: 12 }).map((text) => text.replaceAll('\n', '')),
        fc.constantFrom('m', 'J', 'H', '\u0007', '\u001b\\', 'h', ''),
      ),
      1000,
    );
    const text = sequences.map((parts) => parts.join('')).join(' ');
    const fixture = await open([{ text: `${text}\nTHE END`, piece: 7 }]);
    const { tmux, until, type, keys } = await chat(fixture, '80x24');
    const log = join(fixture.root, 'raw.log');
    tmux('pipe-pane', '-t', 'c', `cat > '${log}'`);
    type('go');
    keys('Enter');
    await until('THE END');
    await until(/\bready\b/);
    const own = /\u001b\[(?:\d+[AC]|J|[\d;]*m|\?25[hl]|\?7[hl]|\?2004[hl])/g;
    const rest = readFileSync(log, 'utf8')
      .replace(own, '')
      .replace(/[\r\n]/g, '');
    expect(rest.match(/[\u0000-\u001f\u007f-\u009f]/g)).toBeNull();
  },
  LONG,
);

at(
  'a typo is no command and no file, and neither is sent',
  async () => {
    const requests: string[] = [];
    const fixture = await open(({ body }) => {
      requests.push(heard(body));
      return { text: 'ok' };
    });
    const { until, keys, say, type } = await chat(fixture, '80x24');
    say('/hepl');
    await until('did you mean `help`');
    keys('C-u');
    say('see @missing.md');
    await until('`@missing.md` was not found');
    keys('C-u');
    type('/lim');
    keys('Tab');
    await until('› /limits');
    keys('C-u');
    say('see @notes/a.txt');
    await until(/\nok\n/);
    expect(requests).toHaveLength(1);
    say('/limits spend=9');
    await until('the limits apply');
    say('/cost');
    await until('tokens');
    say('/labels');
    await until('src:user');
    say('/quit');
    expect(await until('exit=0')).toContain('km chat --resume');
  },
  LONG,
);
