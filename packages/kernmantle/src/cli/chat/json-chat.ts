// Speaks with a program: JSON lines on standard input, and on standard output the events of the threads, the approval
// requests, and one `result` after each round. A bad line is answered with an error, and the conversation goes on.
import {
  EXIT,
  exitCodeOf,
  type Failure,
  fail,
  flag,
  getOwn,
  isObject,
  type JsonObject,
  listOf,
  type Outcome,
  ok,
  oneOf,
  parseJson,
  plainText,
  type ReadBy,
  readValue,
  record,
  text,
  textAt,
} from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import { approvalDigest, choicesFor, decideApproval } from '@kernmantle/core/runtime';
import type { Approval } from '@kernmantle/core/store';
import type { ChatLine } from '../../conversation/session.ts';
import { linesOf } from '../../input-lines.ts';
import { resultLine } from '../commands/run.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { RunView } from '../threads/live-view.ts';
import { exitCodeOfThread } from '../threads/result-text.ts';
import type { ChatSession } from './session.ts';

/** Maximum length of an input line in bytes. */
const MAX_LINE = 1_000_000;
const FILE = record({ path: text, trusted: flag }, { required: ['path'] });
const MESSAGE = record({ type: text, text, attach: listOf(FILE) }, { required: ['text'] });
const DECISION = record(
  {
    type: text,
    approval: text,
    decision: oneOf(['once', 'value', 'scope', 'deny']),
    scope: text,
    why: text,
    digest: text,
  },
  { required: ['approval', 'decision', 'digest'] },
);
type JsonDecision = ReadBy<typeof DECISION>;

/** Refuses a decision about a request that looks different now, and one that the request does not offer. */
function decisionProblem(
  row: Approval,
  epoch: number,
  { decision = 'deny', digest, scope }: JsonDecision,
): Failure | undefined {
  const about = { approval: row.id };
  if (approvalDigest(row, epoch).digest !== digest || row.state !== 'pending') {
    const message = `approval \`${row.id}\` has changed or is decided; read its request again`;
    return fail('conflict', message, about);
  }
  if (choicesFor(row).includes(decision) && (decision !== 'scope' || scope !== undefined)) {
    return undefined;
  }
  const message = `approval \`${row.id}\` takes one of: ${choicesFor(row).join(', ')}; \`scope\` needs a glob`;
  return fail('invalid_input', message, about);
}

/** The shape requires the text and the paths, which its type does not say. */
const chatLine = ({ text: words = '', attach }: ReadBy<typeof MESSAGE>): ChatLine => ({
  text: words,
  ...(attach && { attach: attach.map(({ path = '', ...more }) => ({ path, ...more })) }),
});

const answerTo = ({ decision, scope }: JsonDecision): { answer?: JsonObject } =>
  decision === 'value'
    ? { answer: { value: true } }
    : decision === 'scope' && scope !== undefined
      ? { answer: { scope } }
      : {};

/** Runs the conversation until `end` or the end of the input. Returns the exit code of the last round. */
export async function jsonChat(
  session: ChatSession,
  { terminal, view, first }: { terminal: Terminal; view: RunView; first: ChatLine | undefined },
): Promise<number> {
  const { store, threads, by } = session;
  let working: Promise<void> = Promise.resolve();
  let code: number = EXIT.done;

  /** Returns the row of the thread that asks, if it belongs to this conversation. */
  async function askerOf({ thread = '' }: Approval) {
    const row = await store.thread(thread);
    return row.ok && row.output.chain.includes(session.id() ?? '') ? row.output : undefined;
  }
  async function printRequests(): Promise<void> {
    const open = await store.approvals({ state: 'pending' });
    for (const row of open.ok ? open.output : []) {
      const { id: approval, thread = '', shown } = row;
      const asker = await askerOf(row);
      if (!asker) continue;
      const { digest } = approvalDigest(row, asker.epoch);
      const choices = choicesFor(row);
      terminal.out(JSON.stringify({ type: 'request', approval, thread, digest, choices, shown }));
    }
  }
  async function finish(done: Outcome<ThreadResult>): Promise<void> {
    await view.end();
    if (done.ok && done.output.status === 'waiting') await printRequests();
    code = done.ok ? await exitCodeOfThread(done.output, store) : exitCodeOf(done.error);
    terminal.out(resultLine(done));
  }
  const start = (line?: ChatLine): void => {
    working = session.round(line).then(finish);
  };

  async function send(line: ChatLine): Promise<void> {
    if (session.isWorking() && !line.attach && (await session.inject(line))) return;
    await working;
    start(line);
  }
  async function decide(request: JsonDecision): Promise<Outcome<null>> {
    const { approval: id = '', decision, why = '', digest = '' } = request;
    const found = await store.approvals({ id });
    const row = found.ok ? found.output[0] : undefined;
    const asker = row && (await askerOf(row));
    if (!row || !asker) return fail('not_found', `approval \`${id}\` not found in this chat`);
    const refused = decisionProblem(row, asker.epoch, request);
    if (refused) return refused;
    const word = decision === 'deny' ? 'denied' : 'approved';
    const fields = { decision: word, why, by, digest, ...answerTo(request) } as const;
    const decided = await decideApproval(store, id, fields);
    if (!decided.ok) return decided;
    if (asker.id !== session.id()) {
      // In a shared store, the answer has queued the thread for a worker.
      if (!store.fleet) void threads.resumeAnywhere(asker.id);
    } else if (!session.isWorking()) start();
    return ok(null);
  }
  const commands: Readonly<Record<string, (request: JsonObject) => Promise<Outcome<unknown>>>> = {
    async message(request) {
      const message = readValue(request, 'message', MESSAGE);
      if (message.ok) await send(chatLine(message.output));
      return message;
    },
    async decision(request) {
      const decision = readValue(request, 'decision', DECISION);
      return decision.ok ? await decide(decision.output) : decision;
    },
    compact: async (request) => await session.makeRoom(textAt(request, 'focus')),
    interrupt: async () => ok(await session.interrupt()),
    end: async () => ok('end'),
  };
  async function handle(line: string | undefined): Promise<Outcome<unknown>> {
    if (line === undefined) return fail('invalid_input', `a line has at most ${MAX_LINE} bytes`);
    const request = parseJson(line);
    if (!request.ok) return request;
    const type = plainText(getOwn(request.output, 'type') ?? '');
    const command = Object.hasOwn(commands, type) ? commands[type] : undefined;
    const types = Object.keys(commands).join(', ');
    return isObject(request.output) && command
      ? await command(request.output)
      : fail('invalid_input', `a line must be an object with one of these types: ${types}`);
  }

  session.whenAsked(() => void printRequests());
  if (first) start(first);
  for await (const line of linesOf(process.stdin, MAX_LINE)) {
    if (line?.trim() === '') continue;
    const done = await handle(line);
    if (!done.ok) terminal.out(JSON.stringify({ type: 'error', error: done.error }));
    else if (done.output === 'end') break;
  }
  await working;
  return code;
}
