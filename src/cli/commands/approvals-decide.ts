// `approvals approve|deny|answer`: a person decides, once, on exactly what was asked for.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { Approval, Decision, ThreadStatus } from '../../store/index.ts';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';
import { parseAge } from '../parse-age.ts';
import { countOption, speaker, withRegistry } from '../thread-access.ts';

type Given = Omit<Decision, 'who' | 'channel'>;

/** Nobody is at work on such a thread: the answer is read when it goes on. */
const STANDS_STILL: ReadonlySet<ThreadStatus> = new Set(['needs_input', 'paused', 'interrupted']);

function command(
  decide: (call: CommandCall) => Outcome<Given>,
  fits: (approval: Approval) => Outcome<null> = () => ok(null),
): CommandRun {
  return async (call) => {
    const { args, terminal } = call;
    const given = decide(call);
    if (!given.ok) return terminal.finish(given, () => {});
    return await withRegistry(call, async ({ store }) => {
      const asked = store.approvals.get(asText(args[0]) ?? '');
      const right = asked.ok ? fits(asked.output) : asked;
      if (!right.ok) return terminal.finish(right, () => {});
      const id = asText(args[0]) ?? '';
      const who = { who: speaker(call), channel: 'cli' as const };
      const done = store.approvals.decide(id, { ...given.output, ...who });
      return terminal.finish(done, ({ state, thread }) => {
        terminal.note(`${id} ${state}`);
        const row = store.thread(thread);
        if (row.ok && STANDS_STILL.has(row.output.status)) {
          terminal.note(`go on with \`km threads resume ${thread}\``);
        }
      });
    });
  };
}

export const approve = command(({ options }) => {
  const uses = countOption(options, 'uses');
  if (!uses.ok) return uses;
  const time = asText(options.for);
  const lasts = time === undefined ? ok(undefined) : parseAge('for', time);
  if (!lasts.ok) return lasts;
  return ok({
    decision: 'approved',
    why: asText(options.why) ?? '',
    ...(uses.output === undefined ? {} : { uses: uses.output }),
    ...(lasts.output === undefined ? {} : { expires: Date.now() + lasts.output }),
  });
});

export const deny = command(({ options }) =>
  ok({ decision: 'denied', why: asText(options.why) ?? '' }),
);

export const answer = command(
  ({ args }) => ok({ decision: 'approved', why: '', answer: asList(args[1]).join(' ') }),
  ({ id, kind }) =>
    kind === 'question'
      ? ok(null)
      : fail('usage', `\`${id}\` asks for a ${kind}, not for words: approve it or deny it`),
);
