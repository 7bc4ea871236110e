// Implements `replay`: replays an ended thread from its journal and prints the first difference from
// the recorded events. With `--model` it compares the calls of another model with the recorded ones.
import {
  compact,
  EXIT,
  exitCodeOf,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  plainText,
  shorten,
} from '@kernmantle/core/base';
import type { ReplayReport, ThreadResult } from '@kernmantle/core/harness';
import { eventLine, type Noted } from '@kernmantle/core/journal';
import type { ProviderEndpoint } from '@kernmantle/core/llm';
import type { Threads } from '@kernmantle/core/runtime';
import { asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import { commandActor } from '../project.ts';
import { interruptible, type Terminal, visible } from '../terminal/terminal.ts';
import { around, firstDifference } from '../threads/event-diff.ts';
import { countOption, withThread } from '../threads/open-threads.ts';
import { exitCodeOfThread } from '../threads/result-text.ts';
import { limitsOf, withReplies } from './run.ts';

type CompareOptions = Parameters<Threads['compare']>[1];
type Difference = NonNullable<ReplayReport['difference']>;

function side(name: string, text: string, terminal: Terminal): void {
  terminal.out(`  ${terminal.paint('dim', name.padEnd(9))} ${text}`);
}

function eventText(event: Noted | undefined): string {
  if (!event) return 'nothing; the thread had ended';
  const what = eventLine(event)?.text ?? masked(JSON.stringify(event.data));
  return visible(shorten(`${event.type} in turn ${event.turn}: ${what}`, 400));
}

/** Shows two events of the same type, cut around the first difference. */
function showDifference({ recorded, replayed }: Difference, terminal: Terminal): void {
  const parted =
    recorded && replayed && recorded.type === replayed.type
      ? firstDifference({ ...recorded.data } as JsonObject, { ...replayed.data } as JsonObject)
      : undefined;
  side(
    'recorded',
    parted ? around(parted.recorded, parted.replayed) : eventText(recorded),
    terminal,
  );
  side(
    'replayed',
    parted ? around(parted.replayed, parted.recorded) : eventText(replayed),
    terminal,
  );
  if (parted)
    side('at', visible(`${parted.path} of ${recorded?.type} in turn ${recorded?.turn}`), terminal);
}

function show(report: ReplayReport, terminal: Terminal): void {
  const { same, recorded, isSame, difference, status } = report;
  const end = status === undefined ? '' : `, ended ${status}`;
  if (isSame || !difference) {
    terminal.out(`${terminal.paint('green', 'the same')}: ${same} of ${recorded} events${end}`);
    return;
  }
  const at = `from event ${difference.seq} on`;
  terminal.out(`${terminal.paint('red', 'different')} ${at}, after ${same} that are the same`);
  showDifference(difference, terminal);
}

/** The options of a comparison. They need `--model`, and `--model` needs a budget. */
const COMPARING = ['spend', 'fromTurn', 'toTurn', 'replies'] as const;

function comparisonOf(call: CommandCall): Outcome<CompareOptions | undefined> {
  const { options } = call;
  const model = asText(options.model);
  if (model === undefined) {
    return COMPARING.some((name) => options[name] !== undefined)
      ? fail('usage', '`--spend`, `--from-turn`, `--to-turn` and `--replies` need `--model`')
      : ok(undefined);
  }
  const limits = limitsOf(options);
  if (!limits.ok) return limits;
  if (limits.output?.spend === undefined || options.until !== undefined) {
    const what = options.until === undefined ? 'needs `--spend`' : 'cannot be used with `--until`';
    return fail('usage', `\`--model\` ${what}`);
  }
  const [from, to] = [countOption(options, 'fromTurn'), countOption(options, 'toTurn')];
  if (!from.ok) return from;
  if (!to.ok) return to;
  const by = { who: commandActor(call).who, surface: 'cli' };
  return ok(compact({ model, limits: limits.output, from: from.output, to: to.output, by }));
}

/** Prints one line for each compared turn, and the sums. */
function showComparison({ outputs, status, reason, thread_id }: ThreadResult, terminal: Terminal) {
  const turns = getOwn(outputs, 'turns');
  const text = (calls: Json | undefined): string =>
    (Array.isArray(calls) ? calls : [])
      .map((one) => `${plainText(getOwn(one, 'tool'))} ${JSON.stringify(getOwn(one, 'arguments'))}`)
      .join(', ') || 'no call';
  for (const one of Array.isArray(turns) ? turns : []) {
    const isSame = getOwn(one, 'same') === true;
    const word = isSame ? terminal.paint('green', 'same') : terminal.paint('red', 'different');
    terminal.out(`turn ${plainText(getOwn(one, 'turn'))} ${word}`);
    if (isSame) continue;
    for (const name of ['recorded', 'answered']) {
      side(name, visible(shorten(masked(text(getOwn(one, name))), 400)), terminal);
    }
  }
  const [same, different] = ['same', 'different'].map((name) => plainText(getOwn(outputs, name)));
  if (status !== 'completed') terminal.out(visible(`${status}: ${reason}`));
  terminal.out(`${same} the same, ${different} different (thread ${thread_id})`);
}

/** Compares another model with the recorded turns. Nothing is executed. */
const compare = (
  call: CommandCall,
  options: CompareOptions,
  standIn?: ProviderEndpoint,
): Promise<Ending> =>
  withThread(
    call,
    ({ id }, { threads, store }) =>
      interruptible(async (signal) => {
        const done = await threads.compare(id, options, signal);
        if (!done.ok) {
          call.terminal.finish(done, () => {});
          return done.error.code === 'invalid_input' ? EXIT.usage : exitCodeOf(done.error);
        }
        const result = done.output;
        call.terminal.finish(ok(call.terminal.json ? result.outputs : null), () =>
          showComparison(result, call.terminal),
        );
        if (result.status !== 'completed') return await exitCodeOfThread(result, store);
        return getOwn(result.outputs, 'different') === 0 ? EXIT.done : EXIT.failed;
      }),
    standIn && { standIn },
  );

export const run: CommandRun = async (call) => {
  const { options, terminal } = call;
  const comparison = comparisonOf(call);
  if (!comparison.ok) return comparison;
  const { output: compared } = comparison;
  const replies = asText(options.replies);
  if (compared && replies !== undefined) {
    return await withReplies(call, replies, (scripted, standIn) =>
      compare(scripted, compared, standIn),
    );
  }
  if (compared) return await compare(call, compared);
  const until = countOption(options, 'until');
  if (!until.ok) return until;
  return await withThread(call, async ({ id }, { threads }) => {
    const done = await threads.replay(id, compact({ until: until.output }));
    if (!done.ok) return done;
    terminal.finish(ok(done.output), (report) => show(report, terminal));
    return done.output.isSame ? EXIT.done : EXIT.failed;
  });
};
