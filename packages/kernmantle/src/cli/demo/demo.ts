// Implements `km demo`: a small project, copied to a temporary folder with its own key. The files,
// signatures, refusals, threads and HTTP on loopback are real. The model is scripted, so no key is
// needed.
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
import { compact, EXIT, type Outcome, ok } from '@kernmantle/core/base';
import { type ScriptedProvider, startScriptedProvider } from '@kernmantle/core/llm';
import { BUNDLE, type Runtime, signFiles } from '@kernmantle/core/runtime';
import type { CommandCall, CommandRun, Ending } from '../command.ts';
import { portOf } from '../commands/server-options.ts';
import { servePage } from '../commands/web/serve.ts';
import { commandActor, openRuntime } from '../project.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { showKernel } from './kernel-part.ts';
import { patientModel } from './patient-model.ts';
import { scriptedReplies, showPoison, showThread } from './thread-part.ts';

const SIGNED = [
  '.ai/directives/docs/summarise_notes.md',
  '.ai/directives/docs/answer_mail.md',
  '.ai/directives/docs/chase_todos.md',
  '.ai/tools/text/word_stats.yaml',
  '.ai/tools/text/headline_words.yaml',
  '.ai/tools/sinks/tally_sink.yaml',
  '.ai/directives/demo/release_note.md',
  '.ai/directives/docs/answer_urgent.md',
  '.ai/tools/demo/events.yaml',
  '.ai/tools/demo/publish.yaml',
  '.ai/tools/demo/read_mail.yaml',
  '.ai/tools/demo/shop_key.yaml',
  '.ai/policy.yaml',
];

/** Serves twenty events on loopback, as a provider would stream them. */
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

/** Replaces the sink of the project, which needs a sandbox. The events are only counted then. */
function withoutOwnSink(project: string): void {
  const file = join(project, '.ai/tools/demo/events.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replace('sinks/tally_sink', 'null_sink'));
}

interface Prepared {
  readonly runtime: Runtime;
  readonly env: Terminal['env'];
}

/**
 * Copies the demo project, signs it with a new key and writes a user policy that allows loopback.
 */
async function prepare(
  base: string,
  terminal: Terminal,
  provider: ScriptedProvider,
): Promise<Outcome<Prepared>> {
  // The page shows the name of this folder.
  const [project, home] = [join(base, 'lantern'), join(base, 'home')];
  cpSync(join(BUNDLE, 'demo'), project, { recursive: true });
  mkdirSync(home);
  writeFileSync(join(home, 'policy.yaml'), 'hosts: ["127.0.0.1"]\n', { mode: 0o600 });
  // The demo must use only the scripted model, even if this machine has other keys.
  const env = {
    ...terminal.env,
    KERNMANTLE_HOME: home,
    ANTHROPIC_BASE_URL: provider.url,
    // Known keys are masked in all output, so this one must not be a part of an ordinary word.
    ANTHROPIC_API_KEY: 'no-key-is-needed',
    OPENAI_API_KEY: undefined,
  };
  const opened = await openRuntime({ project, cwd: project, env, store: '' });
  if (!opened.ok) return opened;
  const runtime = opened.output;
  if ((await runtime.sandbox()).kind === 'none') withoutOwnSink(project);
  const signed = signFiles(
    runtime,
    SIGNED.map((file) => join(project, file)),
    commandActor({ terminal }),
  );
  if (!signed.ok) return signed;
  await runtime.close();
  const ready = await openRuntime({ project, cwd: project, env, store: '' });
  return ready.ok ? ok({ runtime: ready.output, env }) : ready;
}

const NEXT = `Next, in a folder of yours:
  km init && km check     a project of your own
  km run hello            with ANTHROPIC_API_KEY or OPENAI_API_KEY set
  km threads top          all running threads, from another terminal`;

/** Sets Ctrl-C to end the process at once. Returns a function that undoes this. */
function endsAtOnce(): () => void {
  const leave = (): void => process.exit(EXIT.interrupted);
  process.on('SIGINT', leave).on('SIGTERM', leave);
  return () => void process.off('SIGINT', leave).off('SIGTERM', leave);
}

/** Opens everything that the demo needs, runs `play`, then closes and removes all of it. */
async function inTemporaryFolder<T>(
  terminal: Terminal,
  provider: ScriptedProvider,
  play: (prepared: Prepared) => Promise<T>,
): Promise<Outcome<T>> {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'kernmantle-demo-')));
  const remove = (): void => rmSync(base, { recursive: true, force: true });
  // The folder is also removed if the process ends early.
  process.once('exit', remove);
  const stay = endsAtOnce();
  try {
    const prepared = await prepare(base, terminal, provider);
    stay();
    if (!prepared.ok) return prepared;
    const played = await play(prepared.output);
    await prepared.output.runtime.close();
    return ok(played);
  } finally {
    stay();
    process.off('exit', remove);
    remove();
  }
}

/** Plays all parts in the terminal. The output is true if every part had the expected result. */
async function playAll(terminal: Terminal, provider: ScriptedProvider): Promise<Outcome<boolean>> {
  const { server, url } = await serveEvents();
  try {
    return await inTemporaryFolder(terminal, provider, async ({ runtime }) => {
      const stay = endsAtOnce();
      const { kind } = await runtime.sandbox();
      const stage = { runtime, terminal, events: url, sandboxed: kind !== 'none' };
      terminal.out(
        'A small project, copied to a temporary folder. No key, no network beyond this machine.',
      );
      const went = [await showKernel(stage), await showThread(stage), await showPoison(stage)];
      stay();
      return went.every(Boolean);
    });
  } finally {
    server.close();
  }
}

async function playInTerminal(terminal: Terminal): Promise<Ending> {
  const replies = scriptedReplies(terminal.isInteractive);
  if (!replies.ok) return replies;
  const provider = await startScriptedProvider(replies.output);
  if (!provider.ok) return provider;
  try {
    const played = await playAll(terminal, provider.output);
    if (!played.ok) return played;
    const sorry = 'the demo had an unexpected result; please report the output above';
    terminal.out(`\n${played.output ? NEXT : terminal.paint('red', sorry)}`);
    return played.output ? EXIT.done : EXIT.failed;
  } finally {
    await provider.output.close();
  }
}

/** Serves the demo in the browser until Ctrl-C. */
async function playInBrowser(call: CommandCall): Promise<Ending> {
  const port = portOf(call.options);
  if (!port.ok) return port;
  const model = patientModel();
  if (!model.ok) return model;
  const provider = await startScriptedProvider(model.output);
  if (!provider.ok) return provider;
  try {
    const served = await inTemporaryFolder(call.terminal, provider.output, ({ runtime, env }) =>
      servePage(runtime, call.terminal, {
        ...compact({ port: port.output }),
        env,
        about: 'the demo (a temporary folder, a scripted model)',
        link: `KERNMANTLE_HOME=${runtime.home} km web link --project ${runtime.project}`,
      }),
    );
    return served.ok ? served.output : served;
  } finally {
    await provider.output.close();
  }
}

export const run: CommandRun = async (call) =>
  call.options.web === true ? await playInBrowser(call) : await playInTerminal(call.terminal);
