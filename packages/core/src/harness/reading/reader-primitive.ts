// Implements the primitive `reader` of the shipped tools `read/*`. The source can be untrusted. The answer has
// labels per field, and stage 7 of a call passes on all marks except `untrusted`.
import { fail, type Outcome, ok, plainText } from '../../base/index.ts';
import { makeValue, mergeAll, type Value } from '../../flow/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../../kernel/index.ts';
import type { LiveThreads } from '../thread/thread.ts';

type Answered = Promise<Outcome<PrimitiveResult>>;
type GivenValues = NonNullable<PrimitiveCall['values']>;

const NULL = makeValue(null);
const valueAt = (values: GivenValues, name: string): Value => values.get(name) ?? NULL;

async function pick(values: GivenValues): Answered {
  const { pickRecords } = await import('./pick-records.ts');
  const picked = pickRecords({
    from: valueAt(values, 'from'),
    where: valueAt(values, 'where'),
    is: valueAt(values, 'is'),
    contains: valueAt(values, 'contains').data === true,
  });
  if (!picked.ok) return picked;
  const { found, facts } = picked.output;
  const output = { found: found.data };
  const parts = new Map([['found', found]]);
  return ok({ output, parts, ...(facts && { facts }) });
}

/** Returns the lines of the tool's task whose inputs are present. */
const taskIn = ({ config: { task = '', also = '' } }: PrimitiveCall): string =>
  [task, also].map(plainText).filter(Boolean).join('\n');

async function read(live: LiveThreads, call: PrimitiveCall, values: GivenValues): Answered {
  const { tool, config, from } = call;
  // INVARIANT: a call never counts as a call of a thread without that thread's token. The id proves nothing.
  const running = from?.__auth === undefined ? undefined : live.get(from.__thread_id ?? '');
  if (!running) {
    const message = `\`${tool.id}\` needs the model of a thread; call it in a directive`;
    return fail('model_unavailable', message);
  }
  const { askReader } = await import('./ask-reader.ts');
  const result = await askReader(running.thread, {
    task: taskIn(call),
    schema: values.get('schema')?.data ?? config.schema ?? null,
    read: values.get('of') ?? valueAt(values, 'from'),
    marks: mergeAll([...values.values()].map(({ meta }) => meta.descriptor)),
  });
  if (!result.ok) return result;
  const { answer, facts, marks } = result.output;
  return ok({ output: answer, facts, marks, labels: ['src:llm'] });
}

/** Runs the reader. Its code is loaded at the first call. */
export async function runReader(live: LiveThreads, call: PrimitiveCall): Answered {
  const { values, tool, config } = call;
  if (!values || tool.source !== 'bundle') {
    return fail('config_invalid', 'only shipped tools can use the primitive `reader`');
  }
  return config.function === 'pick' ? await pick(values) : await read(live, call, values);
}
