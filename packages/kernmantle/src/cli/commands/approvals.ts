// Implements `approvals`: a person decides about exactly the requested call, right, limit or question.
import {
  compact,
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  onOneLine,
  plainText,
  shorten,
} from '@kernmantle/core/base';
import { approvalDigest, choicesFor, decideApproval, STANDS_STILL } from '@kernmantle/core/runtime';
import type { Approval, Decision, Store } from '@kernmantle/core/store';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';
import { commandActor } from '../project.ts';
import { type Terminal, valueText, visible } from '../terminal/terminal.ts';
import { howToGoOn } from '../threads/follow-queued.ts';
import { countOption, withRegistry } from '../threads/open-threads.ts';
import { age } from '../threads/status-text.ts';
import { parseAge } from './threads/prune.ts';

type DecisionInput = Omit<Decision, 'who' | 'channel'>;

/** Turns an invalid decision into a usage error that names the option with its dashes. */
function asUsage({ error: { detail } }: Failure): Failure {
  const { message, option } = detail;
  if (typeof option !== 'string') return fail('usage', message);
  return fail('usage', message.replace(`\`${option}\``, `\`--${option}\``));
}

function command(
  decide: (call: CommandCall) => Outcome<DecisionInput>,
  { isWords = false }: { isWords?: boolean } = {},
): CommandRun {
  return async (call) => {
    const { args, terminal } = call;
    const input = decide(call);
    if (!input.ok) return input;
    return await withRegistry(call, async ({ store }) => {
      const id = asText(args[0]) ?? '';
      const decision = { ...input.output, by: commandActor(call) };
      const result = await decideApproval(store, id, decision, isWords);
      const done = !result.ok && result.error.code === 'invalid_input' ? asUsage(result) : result;
      const thread = done.ok ? (done.output.thread ?? '') : '';
      const row = await store.thread(thread);
      return terminal.finish(done, ({ state }) => {
        terminal.note(`${id} ${state}`);
        // A parked thread does not read the answer before it is resumed.
        if (!row.ok || !STANDS_STILL.has(row.output.status)) return;
        if (store.fleet) terminal.note(`a worker resumes the thread: ${howToGoOn(thread)}`);
        else terminal.note(`resume it with \`km threads resume ${thread}\``);
      });
    });
  };
}

/** Reads the extent of an approval. Fails with `usage` for several options. Undefined without one. */
function answerOf(options: CommandCall['options']): Outcome<DecisionInput['answer']> {
  const { once, beyond, value } = options;
  const scope = asText(options.scope);
  const choices = [once === true, beyond === true, value === true, scope !== undefined];
  if (choices.filter(Boolean).length > 1) {
    return fail('usage', 'use only one of `--once`, `--value`, `--scope` and `--beyond`');
  }
  if (beyond === true) return ok({ beyond });
  if (scope !== undefined) return ok({ scope });
  return ok(value === true ? { value } : undefined);
}

export const approve = command(({ options }) => {
  const answer = answerOf(options);
  if (!answer.ok) return answer;
  const uses = countOption(options, 'uses');
  if (!uses.ok) return uses;
  const time = asText(options.for);
  const lasts = time === undefined ? ok(undefined) : parseAge('for', time);
  if (!lasts.ok) return lasts;
  const input = compact<DecisionInput>({
    decision: 'approved',
    why: asText(options.why) ?? '',
    uses: uses.output,
    expires: lasts.output === undefined ? undefined : Date.now() + lasts.output,
    answer: answer.output,
  });
  return ok(input);
});

export const deny = command(({ options }) =>
  ok({ decision: 'denied', why: asText(options.why) ?? '' }),
);

export const answer = command(
  ({ args }) => ok({ decision: 'approved', why: '', answer: asList(args[1]).join(' ') }),
  { isWords: true },
);

const COLOURS = {
  pending: 'yellow',
  approved: 'green',
  used: 'dim',
  denied: 'red',
  expired: 'dim',
} as const;

/** Values up to this length are printed on one line. */
const MAX_LINE = 100;

const isLong = (value: Json): boolean => JSON.stringify(value).length > MAX_LINE;

/** Fields for programs. The call and its question contain the same information for people. */
const FOR_PROGRAMS: ReadonlySet<string> = new Set(['action', 'roles', 'kinds']);

/** Returns a value as text. A list of texts has no JSON syntax. */
const inWords = (value: Json): string =>
  Array.isArray(value) && value.every((part) => typeof part === 'string')
    ? visible(value.join(', '))
    : valueText(value);

/** Labels of fields whose names are not words. */
const LABELS: Readonly<Record<string, string>> = { asked_by: 'asked by', stands_in: 'found in' };

/** Prints names and values below each other, with a dash before each list element. */
function linesOf(name: string, value: Json, paint: Terminal['paint']): string[] {
  const label = paint('dim', visible(plainText(getOwn(LABELS, name) ?? name)));
  if (value === null || typeof value !== 'object' || !isLong(value)) {
    return [`${label} ${inWords(value)}`];
  }
  const fieldsOf = (part: JsonObject): string[] =>
    Object.entries(part).flatMap(([field, one]) => linesOf(field, one, paint));
  const inner = Array.isArray(value)
    ? value.flatMap((part) =>
        isObject(part)
          ? fieldsOf(part).map((line, at) => `${at === 0 ? '- ' : '  '}${line}`)
          : [`- ${valueText(part)}`],
      )
    : fieldsOf(value);
  return [label, ...inner.map((line) => `  ${line}`)];
}

/** The question as a sentence. For a right or a limit, the sentence names it. */
function questionOf({ kind, shown, binding }: Approval): string {
  const question = onOneLine(plainText(shown.question ?? ''));
  if (kind === 'capability' && binding.capability)
    return `Give \`${plainText(binding.capability)}\`? ${question}`.trim();
  if (kind === 'limit' && binding.limits)
    return `Raise ${JSON.stringify(binding.limits)}? ${question}`.trim();
  return question === '' ? plainText(shown.operation ?? shown.action ?? kind) : question;
}

/** Returns the names of the rules and guards that ask. */
const ruleOf = ({ kind, shown: { asked_by: rules } }: Approval): string =>
  Array.isArray(rules) && rules.length > 0 ? rules.map(plainText).join(', ') : kind;

/** Prints two lines: id, age and question; thread and rule. */
function showBriefly(approval: MarkedApproval, now: number, { paint, out }: Terminal): void {
  const { id, state, thread, asked, shown, thread_title: title = '' } = approval;
  const word = state === 'pending' ? '' : ` ${paint(COLOURS[state], state)}`;
  const question = shorten(visible(questionOf(approval)), 300);
  out(`${paint('bold', id)}${word} ${paint('dim', `${age(now - asked)} ago`)} ${question}`);
  const about = title || plainText(shown.directive ?? '');
  const where =
    thread === undefined
      ? plainText(shown.surface ?? 'no thread')
      : `${thread}${about && ` (${about})`}`;
  out(paint('dim', `  ${shorten(visible(`${where}, ${ruleOf(approval)}`), 300)}`));
}

/** Order of the fields for a reader: the question, the reason, the origins, the exact call. */
const ORDER = [
  'question',
  'because',
  'asked_by',
  'directive',
  'tainted',
  'origins',
  'sources',
  'before',
  'operation',
  'target',
  'arguments',
];

function show(approval: MarkedApproval, now: number, terminal: Terminal): void {
  const { id, state, kind, thread, asked, shown, expires, who, why, mark } = approval;
  const { thread_title: title = '' } = approval;
  const expiry = expires === undefined ? '' : `, expires in ${age(expires - now)}`;
  const result = `${terminal.paint('bold', id)} ${terminal.paint(COLOURS[state], state)} ${kind}`;
  terminal.out(`${result}, asked ${age(now - asked)} ago${expiry}, ${mark}`);
  terminal.out(`  ${terminal.paint('dim', 'thread')} ${visible(`${thread ?? 'none'} ${title}`)}`);
  const { diff, ...file } = isObject(shown.file) ? shown.file : {};
  const parts = { ...shown, ...(shown.file !== undefined && { file }) };
  const names = [...new Set([...ORDER, ...Object.keys(parts)])];
  const isShown = (name: string): boolean =>
    Object.hasOwn(parts, name) && !(shown.action === 'ask' && FOR_PROGRAMS.has(name));
  for (const name of names.filter(isShown)) {
    const value = getOwn(parts, name) ?? null;
    for (const line of linesOf(name, value, terminal.paint)) terminal.out(`  ${line}`);
  }
  if (typeof diff === 'string')
    for (const line of diff.split('\n')) terminal.out(`  ${visible(line)}`);
  if (who !== undefined) {
    const because = why ? `: ${visible(plainText(why))}` : '';
    terminal.out(`  ${terminal.paint('dim', 'by')} ${visible(who)}${because}`);
  }
}

/** An approval request with its digest. `thread_title` is the title of its thread. */
type MarkedApproval = Approval &
  ReturnType<typeof approvalDigest> & { question: string; thread_title?: string };

/** Adds the digest for the current epoch of the thread. The page shows the same digest. */
async function marked(
  store: Store,
  approvals: readonly Approval[],
): Promise<Outcome<MarkedApproval[]>> {
  const rows: MarkedApproval[] = [];
  for (const approval of approvals) {
    const row = approval.thread === undefined ? undefined : await store.thread(approval.thread);
    if (row && !row.ok && row.error.code !== 'not_found') return row;
    const { epoch = 0, title } = row?.ok ? row.output : {};
    const about = title === undefined ? {} : { thread_title: title };
    const question = questionOf(approval);
    rows.push({ ...approval, question, ...about, ...approvalDigest(approval, epoch) });
  }
  return ok(rows);
}

export const showApproval: CommandRun = (call) =>
  withRegistry(call, async ({ store }) => {
    const { args, terminal } = call;
    const id = asText(args[0]) ?? '';
    const rows = await store.approvals({ id });
    const list = rows.ok ? await marked(store, rows.output) : rows;
    const [one] = list.ok ? list.output : [];
    const missing = fail(
      'not_found',
      `approval \`${id}\` not found; run \`km approvals ls --all\``,
      { approval: id },
    );
    const done = !list.ok ? list : one ? ok(one) : missing;
    return terminal.finish(done, (approval) => {
      show(approval, Date.now(), terminal);
      if (approval.state === 'pending') terminal.note(waysToAnswer(approval));
    });
  });

function waysToAnswer(approval: Approval): string {
  const { id, kind } = approval;
  if (kind === 'question') return `answer with \`km approvals answer ${id} WORDS\``;
  const words = { once: '--once', value: '--value', scope: '--scope GLOB', deny: '', answer: '' };
  const ways = choicesFor(approval).map((word) => words[word]);
  const how = kind === 'call' ? ` ${ways.filter((word) => word !== '').join('|')}` : '';
  return `answer with \`km approvals approve ${id}${how}\` or \`km approvals deny ${id}\``;
}

export const listApprovals: CommandRun = (call) =>
  withRegistry(
    call,
    async ({ store }) => {
      const { options, terminal } = call;
      const thread = asText(options.thread);
      const state = options.all === true ? undefined : ('pending' as const);
      const rows = await store.approvals(compact({ state, thread }));
      const list = rows.ok ? await marked(store, rows.output) : rows;
      return terminal.finish(list, (approvals) => {
        const showOne = options.verbose === true ? show : showBriefly;
        for (const approval of approvals) showOne(approval, Date.now(), terminal);
        if (approvals.length === 0) terminal.note('no pending approval requests');
        else terminal.note('answer with `km approvals approve|deny|answer ID`');
      });
    },
    () => [],
  );
