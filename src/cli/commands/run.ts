// `run`: a directive as a thread in this process, within its limits, seen live.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { RunRequest } from '../../harness/index.ts';
import { asList, asText, type CommandRun } from '../command.ts';
import { followRun } from '../follow-run.ts';
import { parseParameters } from './exec.ts';

/** Option, limit it narrows; all are counts except `spend`, which is money. */
const LIMIT_OPTIONS = {
  turns: 'turns',
  tokens: 'tokens',
  toolCalls: 'tool_calls',
  spawns: 'spawns',
  depth: 'depth',
  duration: 'duration',
  spend: 'spend',
} as const;

function limitsOf(options: Readonly<Record<string, unknown>>): Outcome<RunRequest['limits']> {
  const limits: Record<string, number | string> = {};
  for (const [option, name] of Object.entries(LIMIT_OPTIONS)) {
    const text = asText(options[option]);
    if (text === undefined) continue;
    const isRight = name === 'spend' ? /^\d+(\.\d{1,9})?$/ : /^\d{1,12}$/;
    if (!isRight.test(text)) {
      const form = name === 'spend' ? 'an amount such as 0.50' : 'a whole number';
      return fail('usage', `\`--${name.replace('_', '-')} ${text}\` is not ${form}`);
    }
    limits[name] = name === 'spend' ? text : Number(text);
  }
  return ok(Object.keys(limits).length === 0 ? undefined : limits);
}

function requestOf(
  args: Parameters<CommandRun>[0]['args'],
  options: Readonly<Record<string, unknown>>,
): Outcome<RunRequest> {
  const inputs = parseParameters(asList(args[1]));
  if (!inputs.ok) return inputs;
  const limits = limitsOf(options);
  if (!limits.ok) return limits;
  const [message, model] = [asText(options.message), asText(options.model)];
  return ok({
    directive: asText(args[0]) ?? '',
    inputs: inputs.output,
    ...(message === undefined ? {} : { message }),
    ...(model === undefined ? {} : { model }),
    ...(limits.output === undefined ? {} : { limits: limits.output }),
    ...(options.stream === true ? { stream: true } : {}),
  });
}

export const run: CommandRun = async (call) => {
  const request = requestOf(call.args, call.options);
  if (!request.ok) return call.terminal.finish(request, () => {});
  return await followRun(call, {
    mayStart: (runtime) => runtime.mayRun(request.output),
    start: ({ threads }, signal) => threads.run(request.output, signal),
    usageCodes: ['invalid_input'],
  });
};
