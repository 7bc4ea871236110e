// Runs a real client of the language server: the protocol library of editors, over the streams of a process.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath, pathToFileURL } from 'node:url';
import {
  type CompletionItem,
  type CompletionList,
  createProtocolConnection,
  type Diagnostic,
  type Hover,
  type Location,
  type ProtocolConnection,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-languageserver-protocol/node';
import type { Fixture } from './project.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/km.js', import.meta.url));

export interface Editor {
  readonly connection: ProtocolConnection;
  readonly process: ChildProcess;
  readonly capabilities: Record<string, unknown>;
  /** Opens a text as a file of the project. Returns its diagnostics. */
  open(file: string, text: string): Promise<Diagnostic[]>;
  /** Replaces the first `from` of an open text. Returns the new diagnostics. */
  edit(file: string, from: string, to: string): Promise<Diagnostic[]>;
  /** Returns the hover text of `file` at the `|` after the first `before`. */
  hover(file: string, before: string): Promise<string | undefined>;
  complete(file: string, before: string): Promise<string[]>;
  /** Returns `file:line:column` and the text there, counted from 1. */
  definition(file: string, before: string): Promise<string | undefined>;
  uri(file: string): string;
  /** Sends `shutdown` and `exit`. Returns the exit code. */
  close(): Promise<number | null>;
}

export function startServer({ root, env }: Fixture): ChildProcess {
  return spawn(process.execPath, [LAUNCHER, 'lsp'], {
    cwd: root,
    env: { ...env, KERNMANTLE_SRC: '1' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
}

export async function openEditor(fixture: Fixture): Promise<Editor> {
  const child = startServer(fixture);
  const ended = once(child, 'exit');
  const { stdin, stdout } = child;
  if (!stdin || !stdout) throw new Error('the server has no streams');
  const connection = createProtocolConnection(
    new StreamMessageReader(stdout),
    new StreamMessageWriter(stdin),
  );
  const waiting = new Map<string, (found: Diagnostic[]) => void>();
  const texts = new Map<string, { text: string; version: number }>();
  connection.onNotification(
    'textDocument/publishDiagnostics',
    (told: { uri: string; version?: number; diagnostics: Diagnostic[] }) =>
      waiting.get(`${told.uri}#${told.version}`)?.(told.diagnostics),
  );
  connection.listen();
  const { capabilities } = await connection.sendRequest<{ capabilities: Record<string, unknown> }>(
    'initialize',
    { processId: process.pid, rootUri: pathToFileURL(fixture.root).href, capabilities: {} },
  );
  await connection.sendNotification('initialized', {});

  const uri = (file: string): string => pathToFileURL(`${fixture.root}/${file}`).href;
  const told = (file: string, version: number): Promise<Diagnostic[]> =>
    new Promise((resolve) => waiting.set(`${uri(file)}#${version}`, resolve));
  const placeOf = (file: string, offset: number) => {
    const before = (texts.get(file)?.text ?? '').slice(0, offset).split('\n');
    return { line: before.length - 1, character: before.at(-1)?.length ?? 0 };
  };
  const at = (file: string, before: string) => {
    const index = (texts.get(file)?.text ?? '').indexOf(before);
    if (index === -1) throw new Error(`\`${before}\` is not in ${file}`);
    return { textDocument: { uri: uri(file) }, position: placeOf(file, index + before.length) };
  };
  return {
    connection,
    process: child,
    capabilities,
    uri,
    async open(file, text) {
      texts.set(file, { text, version: 1 });
      const found = told(file, 1);
      await connection.sendNotification('textDocument/didOpen', {
        textDocument: { uri: uri(file), languageId: 'mlld', version: 1, text },
      });
      return await found;
    },
    async edit(file, from, to) {
      const { text = '', version = 0 } = texts.get(file) ?? {};
      const start = text.indexOf(from);
      const range = { start: placeOf(file, start), end: placeOf(file, start + from.length) };
      const next = { text: text.replace(from, () => to), version: version + 1 };
      const found = told(file, next.version);
      await connection.sendNotification('textDocument/didChange', {
        textDocument: { uri: uri(file), version: next.version },
        contentChanges: [{ range, text: to }],
      });
      texts.set(file, next);
      return await found;
    },
    async hover(file, before) {
      const found = await connection.sendRequest<Hover | null>(
        'textDocument/hover',
        at(file, before),
      );
      return found ? (found.contents as { value: string }).value : undefined;
    },
    async complete(file, before) {
      const found = await connection.sendRequest<CompletionList | null>(
        'textDocument/completion',
        at(file, before),
      );
      return (found?.items ?? []).map((item: CompletionItem) => item.label);
    },
    async definition(file, before) {
      const found = await connection.sendRequest<Location | null>(
        'textDocument/definition',
        at(file, before),
      );
      if (!found) return undefined;
      const { line, character } = found.range.start;
      const name = fileURLToPath(found.uri).slice(fixture.root.length + 1);
      return `${name}:${line + 1}:${character + 1}+${found.range.end.character - character}`;
    },
    async close() {
      await connection.sendRequest('shutdown');
      await connection.sendNotification('exit');
      const [code] = (await ended) as [number | null];
      connection.dispose();
      return code;
    },
  };
}
