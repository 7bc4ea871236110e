// Chains as an algebra: however links, requirements and signatures are combined, what a caller does
// not hold is never used, and what nobody signed never changes anything. A primitive that tries
// everything it is able to stands at the end.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import {
  projectYard,
  SIGNATURE_STATES,
  signAsUser,
  tool,
  toolFile,
} from '@kernmantle/test-support/attacks';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { fail, ok, systemClock } from '../../src/base/index.ts';
import {
  createFrame,
  createLabelRecords,
  describe,
  makeValue,
  perform,
} from '../../src/flow/index.ts';
import {
  type Library,
  parseTool,
  type SignatureState,
  type Source,
} from '../../src/items/index.ts';
import { type Authority, createToolPreparer, type Primitive } from '../../src/kernel/index.ts';

const yard = projectYard();
const { project } = yard;
afterEach(() => yard.clear());

const CAPABILITIES = [
  'fs.read',
  'fs.write',
  'net.http',
  'process.spawn',
  'git.read',
  'spawn.thread',
];
const READ = new Set(['fs.read', 'git.read', 'tool.execute']);
const STATES: SignatureState['state'][] = ['bundle', 'signed', 'unsigned', 'changed', 'untrusted'];
const SOURCES: Source[] = ['bundle', 'installed', 'user', 'project'];

interface Link {
  requires: string[];
  state: SignatureState['state'];
  source: Source;
  action: string[] | undefined;
  effect: string;
}
const link: fc.Arbitrary<Link> = fc.record({
  requires: fc.subarray(CAPABILITIES),
  state: fc.constantFrom(...STATES, 'signed', 'signed'),
  source: fc.constantFrom(...SOURCES),
  action: fc.option(fc.subarray(CAPABILITIES), { nil: undefined }),
  effect: fc.constantFrom('read', 'write'),
});

const yamlOf = (id: string, next: string, { requires, action, effect }: Link): string =>
  toolFile(
    id,
    `executor_id: ${next}\neffect: ${effect}\nrequires: ${JSON.stringify(requires)}${
      action ? `\nactions: [{name: go, description: d, requires: ${JSON.stringify(action)}}]` : ''
    }`,
  );

/** A library that holds one chain and nothing else. */
function libraryOf(links: readonly Link[]): Library {
  const items = links.map((each, at) => {
    const next = at + 1 < links.length ? `t${at + 1}` : 'recorder';
    const { tool: parsed, diagnostics } = parseTool(yamlOf(`t${at}`, next, each), `/t${at}.yaml`);
    if (!parsed) throw new Error(JSON.stringify(diagnostics));
    return {
      kind: 'tool',
      id: `t${at}`,
      category: 'c',
      source: each.source,
      file: `/t${at}.yaml`,
      signature: { state: each.state },
      diagnostics: [],
      tool: parsed,
    };
  });
  const chain = ok({ links: items, primitive: 'recorder' });
  return {
    find: () => ok(items[0]),
    chain: () => chain,
    chainOf: () => chain,
    // Nothing is known of them, so all are of the highest tier.
    capabilities: () => ({ catalog: { get: () => undefined } }),
    configFaults: () => [],
  } as unknown as Library;
}

/** Uses every capability there is, as far as it is let. */
function recorder(): { primitive: Primitive; runs: string[][]; sources: string[] } {
  const [runs, sources]: [string[][], string[]] = [[], []];
  const primitive: Primitive = {
    name: 'recorder',
    async run(call) {
      runs.push(CAPABILITIES.filter((capability) => call.verify({ capability }).ok));
      sources.push(call.tool.source);
      return ok({ output: null });
    },
  };
  return { primitive, runs, sources };
}

function authorityOf(held: readonly string[], effects: readonly string[]): Authority {
  const check = (capability: string) =>
    capability === 'tool.execute' || held.includes(capability)
      ? ok(null)
      : fail('permission_denied', capability);
  return {
    subject: 'test',
    check: (need) => check(need.capability),
    holds: check,
    sees: () => true,
    allowsEffect: (effect) =>
      effects.includes(effect) ? ok(null) : fail('permission_denied', effect),
    allowsDirective: () => ok(null),
  };
}

const weakest = (links: readonly Link[]): Source =>
  SOURCES.findLast((source) => links.some((each) => each.source === source)) ?? 'project';

test('no chain uses what its caller does not hold, nor an unsigned one what changes anything', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(link, { minLength: 1, maxLength: 5 }),
      fc.subarray(CAPABILITIES),
      fc.subarray(['read', 'write'], { minLength: 1 }),
      fc.boolean(),
      async (links, held, effects, allowsUnsigned) => {
        const { primitive, runs, sources } = recorder();
        const library = libraryOf(links);
        const prepare = createToolPreparer({
          library,
          primitives: new Map([['recorder', primitive]]),
          sinks: {
            library,
            signatures: () => ({ allowsUnsigned, isRead: (name) => READ.has(name) }),
            factories: {},
            moduleSink: () => () => fail('not_found', 'none'),
          },
          retry: { sleep: async () => {} },
          labels: createLabelRecords('/nowhere/labels.jsonl', '/nowhere'),
          clock: systemClock,
          env: {},
          projectRoot: '/nowhere',
          signatures: () => ({ allowsUnsigned, isRead: (name) => READ.has(name) }),
        });
        const leaf = library.find('tool', 't0');
        if (!leaf.ok) throw new Error('no leaf');
        const request = {
          item_type: 'tool',
          item_id: 't0',
          parameters: links[0]?.action ? { action: 'go' } : {},
        };
        const frame = createFrame();
        const caller = { surface: 'test', frame };
        const call = prepare(leaf.output, request);
        const authority = authorityOf(held, effects);
        if (call.ok) {
          const { op, inputs = [], gate, body } = call.output;
          await perform(
            op,
            inputs,
            (values, { capture }) => body(values, { caller, authority, capture }),
            frame,
            { gate: () => gate?.(authority) ?? ok(null) },
          );
        }

        const own = links[0]?.action ?? links[0]?.requires ?? [];
        const required = [...own, ...links.slice(1).flatMap(({ requires }) => requires)];
        const broken = links.some(({ state }) => state === 'changed' || state === 'untrusted');
        const restricted = !allowsUnsigned && links.some(({ state }) => state === 'unsigned');
        const mayUse = (name: string) => held.includes(name) && (!restricted || READ.has(name));
        const mayRun =
          !broken && required.every(mayUse) && effects.includes(links[0]?.effect ?? 'write');

        expect(runs.length).toBe(mayRun ? 1 : 0);
        for (const name of runs.flat()) expect(mayUse(name)).toBe(true);
        if (mayRun) expect(sources).toEqual([weakest(links)]);
      },
    ),
    { numRuns: runs(2000) },
  );
});

const STREAM = (origin: string, type: string) =>
  toolFile(
    'stream',
    `executor_id: http_client\nrequires: [net.http]\nconfig: {url: "${origin}/", mode: stream, stream: {transport: sse, destinations: [{type: ${type}, path: out.jsonl}]}}`,
  );

test.each(['unsigned', 'changed', 'untrusted', 'signed'])(
  'a sink of the project that is %s gets what its signature is worth',
  async (state) => {
    const server = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end('data: {"a":1}\n\n');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      for (const id of ['mine', 'file_sink']) {
        const file = `.ai/tools/sinks/${id}.yaml`;
        const fixture = project({
          '.ai/tools/stream.yaml': STREAM(origin, id),
          [file]: toolFile(id, 'executor_id: function\nconfig: {function: file_sink, format: raw}'),
          '../home/policy.yaml': 'hosts: ["127.0.0.1"]\n',
        });
        signAsUser(fixture, '.ai/tools/stream.yaml');
        SIGNATURE_STATES[state]?.(fixture, file);
        const result = await fixture.call('execute', tool('stream'));
        const written = (() => {
          try {
            return readFileSync(join(fixture.root, 'out.jsonl'), 'utf8');
          } catch {
            return '';
          }
        })();
        expect([id, result.ok, written !== '']).toEqual([
          id,
          state === 'signed',
          state === 'signed',
        ]);
      }
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  },
);

test.each(['constructor', '__proto__', 'toString', 'nothing', 'fs/read_file'])(
  'a destination of the type `%s` is a fault, not an exception',
  async (type) => {
    const fixture = project({ '.ai/tools/stream.yaml': STREAM('http://127.0.0.1:9', type) });
    signAsUser(fixture, '.ai/tools/stream.yaml');
    const result = await fixture.call('execute', tool('stream'));
    expect(result.ok).toBe(false);
    expect(!result.ok && result.error.code).not.toBe('internal_error');
  },
);

test('a label survives being written into an item and handed out again', async () => {
  const fixture = project();
  const runtime = await fixture.open();
  const caller = runtime.caller({ surface: 'cli' });
  const content = '---\ntitle: Notes\ncategory: help\n---\nfrom a stranger\n';
  const descriptor = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:network'] });
  const created = await runtime.kernel.execute(
    {
      item_type: 'knowledge',
      item_id: 'notes',
      action: 'create',
      content,
      values: { content: makeValue(content, { descriptor }) },
    },
    caller,
  );
  expect(created.ok).toBe(true);
  const item = { item_type: 'knowledge', item_id: 'notes' };
  for (const answer of [
    await runtime.kernel.execute(item, caller),
    await runtime.kernel.load(item, caller),
    await runtime.kernel.help({ topic: 'notes' }, caller),
    await runtime.kernel.execute(tool('fs/read_file', { path: '.ai/knowledge/notes.md' }), caller),
  ]) {
    expect(answer.ok && answer.output.meta.descriptor.taint).toContain('untrusted');
  }
  await runtime.close();
});

test('what a guard put in the place of an input is what a directive and a return get', async () => {
  const fixture = project({
    '.ai/directives/say.md':
      '<directive name="say" version="1.0.0"><metadata><description>d</description></metadata><inputs><input name="word" type="string" required="true">w</input></inputs><process><step name="a">say ${inputs.word}</step></process><outputs><word type="string">w</word></outputs></directive>\n',
    '.ai/policy.yaml':
      'guards:\n  - {on: "op:directive", timing: before, when: "true", allow: "[cut]"}\n  - {on: "op:return", timing: before, when: "true", allow: "[cut]"}\n',
  });
  for (const action of ['run', 'return']) {
    const result = await fixture.call('execute', {
      item_type: 'directive',
      item_id: 'say',
      action,
      parameters: { word: 'canary' },
    });
    expect(result).toMatchObject({ ok: true });
    expect(JSON.stringify(result)).toContain('[cut]');
    expect(JSON.stringify(result)).not.toContain('canary');
  }
});
