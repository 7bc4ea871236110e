// `execute item_type:"thread"`: the same things that the tools of `threads/*` do, by the handle that a
// spawn gave back.
import { fail, getOwn, type JsonObject, type Outcome, ok, plainText } from '../base/index.ts';
import { childFrame, makeValue, mergeAll, perform, type Value } from '../flow/index.ts';
import type { Kind } from '../kernel/index.ts';
import type { Asker } from './spawn-asker.ts';
import { askerOf, type ThreadPorts } from './spawn-primitive.ts';
import { type Answer, threadStatus, waitThreads } from './spawn-read.ts';
import { resume, steer } from './spawn-steer.ts';

export const THREAD_ACTIONS = ['status', 'wait', 'pause', 'resume', 'inject', 'cancel'] as const;
export type ThreadAction = (typeof THREAD_ACTIONS)[number];
const DEFAULT_WAIT_MS = 60_000;

const word = (parameters: JsonObject, ...names: string[]): string =>
  plainText(
    names.map((name) => getOwn(parameters, name)).find((value) => value !== undefined) ?? '',
  );

const ACTION_PARAMETERS = ['timeout_ms', 'reason', 'message', 'content', 'role'];

async function wait(asker: Asker, id: string, parameters: JsonObject): Promise<Outcome<Answer>> {
  const asked = getOwn(parameters, 'timeout_ms');
  const waited = await waitThreads(
    asker,
    [id],
    typeof asked === 'number' ? asked : DEFAULT_WAIT_MS,
  );
  if (!waited.ok) return waited;
  return ok(waited.output[0] ?? { output: null, marks: mergeAll([]) });
}

/** No `default`: a new action must fail to compile here. */
async function act(
  action: ThreadAction,
  asker: Asker,
  id: string,
  parameters: JsonObject,
): Promise<Outcome<Answer>> {
  const reason = word(parameters, 'reason');
  const said = word(parameters, 'message', 'content');
  switch (action) {
    case 'status':
      return threadStatus(asker, id);
    case 'wait':
      return await wait(asker, id, parameters);
    case 'pause':
      return steer(asker, id, 'pause', { ...(reason && { reason }) });
    case 'resume':
      return await resume(asker, id, said);
    case 'inject':
      return said === ''
        ? fail('invalid_input', '`inject` needs a `message`')
        : steer(asker, id, 'message', { content: said });
    case 'cancel':
      return steer(asker, id, 'terminate', { ...(reason && { reason }) });
  }
}

export function threadKind(ports: ThreadPorts): Kind {
  return {
    name: 'thread',
    actions: THREAD_ACTIONS,
    async execute(request, caller, authority): Promise<Outcome<Value>> {
      const { item_id: id, parameters = {} } = request;
      const action = request.action as ThreadAction;
      const unknown = Object.keys(parameters).find((name) => !ACTION_PARAMETERS.includes(name));
      if (unknown !== undefined) {
        return fail(
          'invalid_input',
          `\`${action}\` of a thread takes no \`${unknown}\`; it takes: ${ACTION_PARAMETERS.join(', ')}`,
        );
      }
      const effect = action === 'status' || action === 'wait' ? 'read' : 'write';
      const inputs = Object.entries(parameters).map(([name, data]) => ({
        name,
        value: request.values?.[name] ?? makeValue(data),
      }));
      return await perform(
        {
          type: 'thread',
          name: action,
          target: id,
          opLabels: ['op:thread', `op:thread:${action}`],
          sources: [`thread:${id}`],
        },
        inputs,
        async (values) => {
          const asker = await askerOf(ports, {
            from: caller,
            verify: (need) => authority.check(need),
            signal: caller.signal ?? new AbortController().signal,
            given: mergeAll(values.map(({ meta }) => meta.descriptor)),
          });
          if (!asker.ok) return asker;
          // As the guards left them.
          const passed = Object.fromEntries(
            inputs.map(({ name }, at) => [name, values[at]?.data ?? null]),
          );
          const done = await act(action, asker.output, id, passed);
          return done.ok
            ? ok(makeValue(done.output.output, { descriptor: done.output.marks }))
            : done;
        },
        childFrame(caller.frame, { ports: { gate: () => authority.allowsEffect(effect) } }),
      );
    },
  };
}
