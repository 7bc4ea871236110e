// Measures the pipeline for a call that needs no decision, and for a call that needs one.
import { ok } from '@kernmantle/core/base';
import {
  createFrame,
  describe,
  type Frame,
  type Input,
  labelFields,
  makeValue,
  mergeDescriptors,
  type Operation,
  perform,
} from '@kernmantle/core/flow';
import { heardThread } from '@kernmantle/test-support/heard-thread';
import { compileGuards } from '../packages/core/src/flow/guards/guard-expression.ts';
import type { Body } from '../packages/core/src/flow/pipeline/stages.ts';
import { composePolicies } from '../packages/core/src/flow/policies/compose.ts';
import { originsIn } from '../packages/core/src/harness/rights/thread-rules.ts';
import { type BenchRow, race } from './row.ts';

const COUNT = 50_000;
const JUDGED = 5000;

const value = makeValue('some text', {
  descriptor: describe({ labels: ['customer'], taint: ['src:file'], sources: ['file:a.txt'] }),
});
const inputs: readonly Input[] = [{ name: 'text', value }];
const body: Body = ([text]) => ok(text ?? value);

const operation = (name: string): Operation => ({
  type: 'tool',
  name,
  opLabels: ['op:tool', `op:tool:${name}`],
  retryOwner: true,
});
const OP = operation('fs/read_file');

/** Returns guards and a policy that are active but concern other calls. */
function unrelated(): Frame {
  const guards = compileGuards([
    { on: 'secret', timing: 'always', verdict: { kind: 'deny', text: 'no' } },
    { on: 'op:tool:http/*', timing: 'before', verdict: { kind: 'deny', text: 'no' } },
  ]);
  if (!guards.ok) throw new Error(guards.error.detail.message);
  const policy = composePolicies([{ level: 'user', labels: { pii: { deny: ['op:cmd'] } } }]);
  return createFrame({ guards: guards.output, policy });
}

function guarded(): Frame {
  const guards = compileGuards([
    {
      name: 'careful',
      on: 'customer',
      timing: 'before',
      when: 'op.type == "show" or "secret" in input.labels',
      verdict: { kind: 'deny', text: 'no' },
    },
    {
      on: 'op:tool:fs/*',
      timing: 'after',
      when: 'output.tokens > 1000 and "untrusted" in output.taint',
      verdict: { kind: 'deny', text: 'too much' },
    },
  ]);
  if (!guards.ok) throw new Error(guards.error.detail.message);
  return createFrame({ guards: guards.output });
}

/** A risky call of a model that has read a hundred answers and one untrusted text: traced and judged. */
function traced(): () => Promise<void> {
  const rows = (at: number) =>
    Array.from({ length: 20 }, (_, row) => ({ id: `m${at}-${row}`, body: 'words '.repeat(20) }));
  const facts = { free_text: ['body'], kinds: { id: 'mail' } };
  const results = Array.from({ length: 100 }, (_, at) => {
    const { data, meta } = labelFields(makeValue({ rows: rows(at) }), facts);
    return { content: data, marks: meta.descriptor, facts };
  });
  const thread = heardThread(['forward `m7-3` and write reports/a.md'], results);
  const frame = createFrame({ ports: { origins: originsIn(thread) } });
  const op: Operation = { ...operation('own/forward'), risk: ['exfil'] };
  const descriptor = thread.talk.conversation.ownMarks();
  const asked: readonly Input[] = ['m7-3', 'm99-19', 'm50-1'].map((id, at) => ({
    name: `id${at}`,
    role: 'destination',
    kind: 'mail',
    value: makeValue(id, { descriptor }),
  }));
  return async () => {
    for (let round = 0; round < JUDGED; round++) {
      const done = await perform(op, asked, body, frame);
      if (!done.ok) throw new Error(done.error.detail.message);
    }
  };
}

const repeat = (work: () => unknown) => () => {
  for (let round = 0; round < COUNT; round++) work();
};

const scope = { frame: createFrame(), capture() {}, emit() {}, signal: undefined, trace: [] };
const given = [value];
const through = (frame: Frame, op: () => Operation) => async () => {
  for (let round = 0; round < COUNT; round++) await perform(op(), inputs, body, frame);
};

export async function bench(): Promise<BenchRow[]> {
  const [a, b] = [describe({ labels: ['a'], sources: ['file:1'] }), value.meta.descriptor];
  const micros = await race({
    bare: repeat(() => body(given, scope)),
    empty: through(createFrame(), () => OP),
    fresh: through(createFrame(), () => operation('fs/read_file')),
    unrelated: through(unrelated(), () => OP),
    unrelatedFresh: through(unrelated(), () => operation('fs/read_file')),
    guarded: through(guarded(), () => OP),
    merge: repeat(() => mergeDescriptors(a, b)),
    traced: traced(),
  });
  const each = (name: string): number => (micros[name] ?? 0) / (name === 'traced' ? JUDGED : COUNT);
  const row = (name: string, subject: string, limit: number): BenchRow => {
    const added = each(subject) - each('bare');
    return {
      name,
      ours: added,
      base: each('bare'),
      ratio: added / limit,
      unit: 'µs',
      target: `adds under ${limit} µs`,
      ok: added < limit,
    };
  };
  return [
    row('perform, no guards', 'empty', 3),
    row('perform, no guards, operation made anew', 'fresh', 3),
    row('perform, guards and policy that do not match', 'unrelated', 3),
    row('the same, operation made anew', 'unrelatedFresh', 3),
    row('perform, two guards asked', 'guarded', 50),
    row('a risky call judged, after a hundred results', 'traced', 200),
    row('merge of two known descriptors', 'merge', 0.2),
  ];
}
