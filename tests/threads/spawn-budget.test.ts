// The promise about trees: whatever is spawned below whatever, and however it ends, what is charged
// to a thread is what it and all below it used, and never more than its limit.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { getOwn, type Json, plainText } from '../../src/base/index.ts';
import type { ScriptedRequest } from '../../src/llm/index.ts';
import { budgetOf } from '../support/registry-reads.ts';
import { runs, timeoutMs } from '../support/soak.ts';
import { call, directive, openStage, type Stage, spawn } from '../support/thread-project.ts';

interface Node {
  /** What its model reports for each request. */
  used: [input: number, output: number];
  children: Node[];
}

const used = fc.tuple(fc.integer({ min: 1, max: 900 }), fc.integer({ min: 1, max: 250 }));
const leaf: fc.Arbitrary<Node> = fc.record({ used, children: fc.constant([]) });
const inner = (below: fc.Arbitrary<Node>, most: number): fc.Arbitrary<Node> =>
  fc.record({ used, children: fc.array(below, { maxLength: most }) });
const tree = inner(inner(inner(leaf, 1), 2), 3);

/** The part of the tree that a request is about: the only input of its directive. */
function nodeOf({ body }: ScriptedRequest): Node {
  const text = JSON.stringify(body);
  const packed = /plan=([A-Za-z0-9_-]+)/.exec(text)?.[1] ?? '';
  return JSON.parse(Buffer.from(packed, 'base64url').toString()) as Node;
}
const pack = (node: Node): string =>
  `plan=${Buffer.from(JSON.stringify(node)).toString('base64url')}`;

function answer(request: ScriptedRequest) {
  const node = nodeOf(request);
  const usage = { input_tokens: node.used[0], output_tokens: node.used[1] };
  if (request.assistant_messages === 1 && node.children.length > 0) {
    const calls = node.children.map((child) => spawn('node', { inputs: { plan: pack(child) } }));
    return { tool_calls: calls, usage };
  }
  const handles = request.results.map((result) => plainText(getOwn(result, 'thread_id')));
  if (request.assistant_messages === 2 && handles.some(Boolean)) {
    return {
      tool_calls: [call('threads/wait_all', { thread_ids: handles.filter(Boolean) })],
      usage,
    };
  }
  return { text: 'done', usage };
}

/** Tokens that the model reported to this thread itself. */
async function reported({ threads }: Stage, id: string): Promise<bigint> {
  const events = await threads.store.read(id);
  return (events.ok ? events.output : [])
    .filter(({ type }) => type === 'assistant_message')
    .reduce((sum, { data }) => sum + BigInt(Number(getOwn(data.usage as Json, 'tokens') ?? 0)), 0n);
}

async function budgetIn({ threads }: Stage, id: string) {
  const budget = await budgetOf(threads.store, id);
  if (!budget.ok) throw new Error(budget.error.detail.message);
  return budget.output;
}

test(
  'in every tree each thread is charged what is used below it, within its limit',
  async () => {
    const made = await openStage(
      directive('node', {
        permissions: '<orchestration enabled="true"/>',
        limits: '<spawns>6</spawns><tokens>60000</tokens>',
        inputs: '<input name="plan" type="string" required="true">the tree</input>',
      }),
      { node: [answer] },
    );
    const { store } = made.threads;
    await fc.assert(
      fc.asyncProperty(tree, fc.integer({ min: 3000, max: 60_000 }), async (plan, tokens) => {
        const done = await made.threads.run({
          directive: 'node',
          inputs: { plan: pack(plan) },
          limits: { tokens },
        });
        if (!done.ok) throw new Error(done.error.detail.message);
        const page = await store.query({ root: done.output.thread_id, limit: 500 });
        const all = page.ok ? page.output.rows : [];
        for (const { id, status, cost } of all) {
          const { limits, used: charged, reserved } = await budgetIn(made, id);
          const children = all.filter(({ parent }) => parent === id);
          let below = 0n;
          for (const row of children) below += (await budgetIn(made, row.id)).used.tokens;
          const own = charged.tokens - below;
          // A request that was broken off may be on the invoice: it is charged what was set aside.
          if (status !== 'terminated') expect(own).toBe(await reported(made, id));
          else expect(own >= (await reported(made, id))).toBe(true);
          expect(BigInt(Number(cost.tokens))).toBe(charged.tokens);
          expect(charged.tokens <= (limits.tokens ?? 0n)).toBe(true);
          expect(charged.spawns <= (limits.spawns ?? 0n)).toBe(true);
          expect([reserved.tokens, reserved.spend, reserved.spawns]).toEqual([0n, 0n, 0n]);
          expect(['completed', 'limit', 'terminated']).toContain(status);
        }
        const spawned = (await budgetIn(made, done.output.thread_id)).used.spawns;
        expect(spawned).toBe(BigInt(all.length - 1));
      }),
      { numRuns: runs(15) },
    );
  },
  timeoutMs(60_000),
);
