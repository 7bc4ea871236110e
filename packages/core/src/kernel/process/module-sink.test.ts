import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  holdsEverything,
  makeProject,
  portsOf,
  type TestProject,
} from '@kernmantle/test-support/processes';
import { working } from '@kernmantle/test-support/sandboxes';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import { createProcessSink } from './module-sink.ts';

const hasPython = spawnSync('python3', ['--version']).status === 0;
const kinds: [string, SandboxReport][] = [['without a sandbox', { kind: 'none' }], ...working];

const MODULES = {
  '.ai/tools/sinks/keep.ts': `
    import { appendFileSync } from 'node:fs';
    export async function write(event: { event?: string; data: string }, config: { path: string }) {
      if (event.data === 'bad') throw new Error('cannot take it');
      appendFileSync(config.path, event.data + '\\n');
    }
    export function close() { console.error('closed well'); }`,
  '.ai/tools/sinks/dies.ts': `
    let n = 0;
    export function write() { if (++n === 3) process.exit(4); }`,
  '.ai/tools/sinks/broken.ts': 'export const nothing = 1;',
  '.ai/tools/sinks/deaf.ts':
    "import { once } from 'node:events'; export const write = () => new Promise(() => {}); setInterval(() => {}, 1000);",
  '.ai/tools/sinks/keep.py': `
def write(event, config):
    with open(config["path"], "a") as file:
        file.write(event["data"] + "\\n")
`,
  '.ai/tools/sinks/file_sink.py': `
import json
from pathlib import Path
from typing import Optional
class FileSink:
    def __init__(self, path: str, format: str = "jsonl", flush_every: int = 10):
        self.path, self.format, self.count = Path(path), format, 0
        self.file: Optional[object] = None
    async def write(self, event: str) -> None:
        if not self.file:
            self.file = open(self.path, "a", encoding="utf-8")
        self.file.write(json.dumps(json.loads(event)) + "\\n")
        self.count += 1
    async def flush(self):
        self.file.flush()
    async def close(self) -> None:
        self.file.close()
`,
  '.ai/tools/sinks/objects.py': `
from typing import Dict
class Base:
    pass
class Objects(Base):
    def __init__(self, config):
        self.path = config["path"]
    def write(self, event: Dict) -> None:
        with open(self.path, "a") as file:
            file.write(event["event"] + "=" + event["data"] + "\\n")
`,
  '.ai/tools/sinks/several.py': `
class One:
    def __init__(self, **fields):
        self.fields = fields
    def write(self, event):
        open(self.fields["path"], "a").write(event + "|" + str(sorted(self.fields)) + "\\n")
class Two:
    def write(self, event):
        raise ValueError("no " + event)
`,
};

let project: TestProject;
beforeAll(() => {
  project = makeProject(MODULES);
});
afterAll(() => project.remove());

describe.each(kinds)('%s', (_, report) => {
  async function sinkOf(
    module: string,
    more: JsonObject = {},
    signal = new AbortController().signal,
  ) {
    const { tool } = callOf(
      project,
      {},
      { tool: { id: 'sinks/mine', dir: join(project.root, '.ai/tools/sinks') } },
    );
    const factory = createProcessSink(portsOf(project, report), tool);
    const made = await factory(
      { type: 'mine', runtime: module.endsWith('.py') ? 'python' : 'node', module, ...more },
      { projectRoot: project.root, threadId: undefined, verify: holdsEverything, signal },
    );
    if (!made.ok) throw new Error(made.error.detail.message);
    return made.output;
  }

  const modules = ['keep.ts', ...(hasPython ? ['keep.py'] : [])];
  test.each(modules)('%s gets every event in order', async (module) => {
    const path = join(project.root, `${module}-${report.kind}.txt`);
    const sink = await sinkOf(module, { path });
    const lines = Array.from({ length: 2000 }, (_unused, index) => `${index} ${'é'.repeat(50)}`);
    for (const data of lines) await sink.write([{ data }]);
    expect(await sink.close()).toMatchObject({ type: 'sinks/mine', delivered: 2000, dropped: 0 });
    expect(readFileSync(path, 'utf8')).toBe(`${lines.join('\n')}\n`);
  });

  test.runIf(hasPython).each([
    ['file_sink.py', { format: 'jsonl' }, '{"n": 1}\n{"n": 2}\n'],
    ['objects.py', {}, 'x={"n":1}\nx={"n":2}\n'],
    [
      'several.py',
      { function: 'One', more: 1 },
      `{"n":1}|['more', 'path']\n{"n":2}|['more', 'path']\n`,
    ],
  ])('a Python class is a sink: %s', async (module, more, text) => {
    const path = join(project.root, `${module}-class-${report.kind}.txt`);
    const sink = await sinkOf(module, { path, ...more });
    for (const n of [1, 2]) await sink.write([{ event: 'x', data: `{"n":${n}}` }]);
    expect(await sink.close()).toEqual({ type: 'sinks/mine', delivered: 2, dropped: 0 });
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  test.runIf(hasPython).each([
    ['file_sink.py', {}, 'TypeError: `FileSink` needs `path`; write it beside `type`'],
    ['several.py', {}, 'AttributeError: the module has several classes with `write`'],
    ['several.py', { function: 'Two' }, 'several.py:9: ValueError: no a'],
    ['several.py', { function: 'Three' }, 'the module has no function `Three`'],
  ])('what is wrong with one is said in a line: %s %j', async (module, more, line) => {
    const sink = await sinkOf(module, more);
    await sink.write([{ data: 'a' }]);
    const closed = await sink.close();
    expect(closed).toMatchObject({ delivered: 0, dropped: 1 });
    expect(closed.log).toContain(line);
    expect(closed.log).not.toContain(project.root);
    expect(closed.log).not.toContain('\n');
  });

  test('an event that it cannot take counts as dropped, the next one arrives', async () => {
    const path = join(project.root, `partly-${report.kind}.txt`);
    const sink = await sinkOf('keep.ts', { path });
    for (const data of ['a', 'bad', 'b']) await sink.write([{ data }]);
    const closed = await sink.close();
    expect(closed).toMatchObject({ delivered: 2, dropped: 1, error: 'the sink lost events' });
    expect(closed.log).toContain('closed well');
    expect(readFileSync(path, 'utf8')).toBe('a\nb\n');
  });

  test('a sink that dies never stops the stream; what it missed is counted', async () => {
    const sink = await sinkOf('dies.ts');
    for (let index = 0; index < 5000; index++) await sink.write([{ data: 'x'.repeat(200) }]);
    expect(await sink.close()).toMatchObject({
      delivered: 2,
      dropped: 4998,
      error: 'the sink ended with code 4',
    });
  });

  test('a module without a function for events says so', async () => {
    const sink = await sinkOf('broken.ts');
    await sink.write([{ data: 'x' }]);
    const closed = await sink.close();
    expect(closed).toMatchObject({ delivered: 0, dropped: 1 });
    expect(closed.log).toContain('exports no function `write`');
  });

  test('stopping the stream stops the sink', async () => {
    const stopper = new AbortController();
    const sink = await sinkOf('deaf.ts', {}, stopper.signal);
    await sink.write([{ data: 'x' }]);
    stopper.abort();
    expect(await sink.close()).toMatchObject({ delivered: 0, dropped: 1 });
  });
});

test('a sink without a module is refused', async () => {
  const { tool } = callOf(project, {});
  const made = await createProcessSink(portsOf(project, { kind: 'none' }), tool)(
    { type: 'mine', command: 'cat' },
    {
      projectRoot: project.root,
      threadId: undefined,
      verify: holdsEverything,
      signal: new AbortController().signal,
    },
  );
  expect(made).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
});
