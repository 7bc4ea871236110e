// The page about `/api`, followed word for word: each request is sent to a real server over the project that
// the page shows, and the answer looks as it says.
import type { ScriptedReply } from '@kernmantle/core/llm';
import { blocksOf, matches, readPage } from '@kernmantle/test-support/docs-page';
import { execute, openStage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { ListedApproval } from '../src/model/api.ts';
import { bearerOf, type ServedStage, serveStage } from './support/serve.ts';

const PAGE = readPage('docs/web-api.md');
const BLOCKS = blocksOf(PAGE);

/** Long answers of tools are kept apart. */
const LONG = 'all quiet '.repeat(8000);
const SAYS: readonly ScriptedReply[] = [
  { tool_calls: [execute('fs/read_file', { path: 'notes/long.txt' })] },
  { tool_calls: [execute('fs/read_file', { path: 'private/keys.txt' })] },
  {
    text: 'I write the report.',
    tool_calls: [execute('fs/write_file', { path: 'reports/a.md', content: 'All quiet.' })],
  },
  { text: 'done' },
];

interface Known {
  THREAD: string;
  APPROVAL: string;
  DIGEST: string;
  HASH: string;
  DENIED: string;
}

/** What the page calls by a name in capitals, as it is in this run. */
async function learn({ threads }: ServedStage, known: Known, listed: readonly ListedApproval[]) {
  const page = await threads.store.query({ limit: 1 });
  known.THREAD = page.ok ? (page.output.rows[0]?.id ?? '') : '';
  const events = await threads.store.read(known.THREAD);
  const all = events.ok ? events.output : [];
  known.HASH = /sha256:[0-9a-f]{64}/.exec(JSON.stringify(all.map(({ data }) => data)))?.[0] ?? '';
  known.DENIED = String(all.find(({ type }) => type === 'permission_denied')?.seq ?? 0);
  [known.APPROVAL, known.DIGEST] = [listed[0]?.id ?? '', listed[0]?.digest ?? ''];
}

const fill = (text: string, known: Known): string =>
  text.replace(/\b(THREAD|APPROVAL|DIGEST|HASH|DENIED)\b/g, (word) => known[word as keyof Known]);

async function send(served: ServedStage, headers: Record<string, string>, text: string) {
  const [line = '', , ...body] = text.trim().split('\n');
  const [method = '', path = ''] = line.split(' ');
  const isPost = method === 'POST';
  const response = await fetch(`${served.url}${path}`, {
    method,
    headers: { ...headers, ...(isPost && { 'content-type': 'application/json' }) },
    ...(isPost && { body: body.length === 0 ? '{}' : body.join('\n') }),
  });
  return await response.text();
}

test('every resource answers as the page says', async () => {
  const item = BLOCKS.find(({ file }) => file?.endsWith('.md'));
  const stage = await openStage(
    {
      [item?.file ?? '']: item?.text ?? '',
      'notes/long.txt': LONG,
      'greet.mld': 'show `Hello`\n',
    },
    { nightly: SAYS },
  );
  const served = await serveStage(stage);
  const headers = { ...bearerOf(stage.fixture, 'approve', 'ops') };
  const known: Known = { THREAD: '', APPROVAL: '', DIGEST: '', HASH: '', DENIED: '' };
  const settle = async (): Promise<void> => {
    // At work, or answered and about to go on.
    const busy = async (): Promise<number> => {
      const { store } = stage.threads;
      const open = await store.query({ status: ['running', 'spawning', 'waiting'] });
      const pending = await store.approvals({ state: 'pending' });
      const asking = new Set(pending.ok ? pending.output.map(({ thread }) => thread) : []);
      return open.ok ? open.output.rows.filter(({ id }) => !asking.has(id)).length : -1;
    };
    await expect.poll(busy).toBe(0);
    const { answer } = await served.get('approvals');
    const listed = (answer.output as { approvals: readonly ListedApproval[] }).approvals;
    if (listed.length > 0 || known.THREAD === '') await learn(served, known, listed);
  };
  let asked = '';
  let count = 0;
  for (const { kind, text } of BLOCKS) {
    if (kind === 'http') {
      asked = fill(text, known);
      continue;
    }
    if (kind !== 'json' || asked === '') continue;
    const said = await send(served, headers, asked);
    if (!matches(text.replaceAll(/\b(THREAD|APPROVAL|DIGEST|HASH|DENIED)\b/g, '…'), said)) {
      expect(`${asked}${said}`).toBe(`${asked}${text}`);
    }
    if (asked.startsWith('POST')) await settle();
    [asked, count] = ['', count + 1];
  }
  expect(count).toBeGreaterThan(18);
});

test('the page names every resource that is served here', async () => {
  const served = await serveStage(await openStage({}, {}));
  const own = served.routes;
  expect(own.length).toBeGreaterThan(30);
  const named = own.filter(({ method, path }) => {
    const pattern = path.replace(/:\w+(\{[^}]*\})?/g, '[^ ?\\n]+').replace(/^/, `${method} /api`);
    return new RegExp(['(^|`)', pattern, '([ ?`\\n]|$)'].join(''), 'm').test(PAGE);
  });
  expect(named.map(({ method, path }) => `${method} ${path}`)).toEqual(
    own.map(({ method, path }) => `${method} ${path}`),
  );
});
