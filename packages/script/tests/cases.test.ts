// Runs the case folders tests/cases/scripts/<area>/<rule>. A folder has `example.md` or `example.mld`, its
// files, and the expected result: `expected.md` (stdout) and for a failure `fault.yaml` (exit code, code,
// location, part of the message, part of the hint).
import { cpSync, existsSync, globSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseYaml } from '@kernmantle/core/base';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { probeSandbox } from '../../core/src/kernel/sandbox/probe.ts';
import { runScriptJob } from '../../kernmantle/src/cli/commands/script.ts';
import { printed } from '../../kernmantle/src/cli/commands/script-output.ts';
import { diagnose } from '../src/index.ts';
import { createModules } from '../src/lsp/modules.ts';

const CASES = fileURLToPath(new URL('cases', import.meta.url));
const STARTS_A_PROCESS =
  /\b(?:cmd|sh|bash|node|py|python)(?::\S+)?\s*(?:\([^)]*\)\s*)?\{|\brun\s*["'`{]|\| *\{|\bneeds\s*\{/;
const sandbox = await probeSandbox();

let fixture: Fixture;
beforeAll(() => {
  fixture = makeFixture();
});
afterAll(() => fixture.remove());

interface Fault {
  exit: number;
  code: string;
  /** Location of the fault, if it is in another file. */
  file?: string;
  line: number;
  column: number;
  message: string;
  hint?: string;
}

const readIf = (file: string): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');

function readFault(folder: string): Fault | undefined {
  const text = readIf(join(folder, 'fault.yaml'));
  return text === '' ? undefined : (parseYaml(text).value as unknown as Fault);
}

/** Runs the files of the case in a new project, as the command line does. */
async function run(name: string, file: string) {
  const cwd = join(fixture.root, name);
  cpSync(join(CASES, name), cwd, { recursive: true });
  mkdirSync(join(cwd, '.ai'));
  let out = '';
  const { code, problems } = await runScriptJob({
    file,
    text: undefined,
    cwd,
    env: fixture.env,
    payload: {},
    stdin: () => '',
    onEffect(effect) {
      const line = printed(effect);
      if (line?.stream === 'out') out += line.text;
    },
  });
  return { code, out, problem: problems[0]?.replaceAll(`${cwd}/`, '') ?? '' };
}

async function check(path: string): Promise<void> {
  const name = dirname(path);
  const file = path.slice(name.length + 1);
  const { code, out, problem } = await run(name, file);
  const fault = readFault(join(CASES, name));
  expect(out).toBe(readIf(join(CASES, name, 'expected.md')));
  expect({ code, problem: fault ? '' : problem }).toEqual({ code: fault?.exit ?? 0, problem: '' });
  if (!fault) return;
  const [place = '', ...rest] = problem.split('\n');
  expect(place).toContain(`${fault.file ?? file}:${fault.line}:${fault.column}: error: `);
  expect(place).toContain(fault.message);
  expect(place).toContain(`[${fault.code}]`);
  // The source line and a caret below its column are indented by four blanks.
  expect(rest[1]?.indexOf('^')).toBe(4 + fault.column - 1);
  expect(rest.slice(2).join('\n')).toContain(fault.hint ?? '');
}

const all = globSync('*/*/example.{md,mld}', { cwd: CASES }).toSorted();
const needsSandbox = (path: string) =>
  STARTS_A_PROCESS.test(readFileSync(join(CASES, path), 'utf8').replaceAll(/^#.*$/gm, ''));

test('a case that runs to its end has no error by the check', () => {
  const userFolder = fixture.root;
  const modules = createModules(userFolder, () => undefined);
  const wrong = all.flatMap((path) => {
    // A copy, because each case is a project.
    const file = join(fixture.root, 'checked', path);
    cpSync(dirname(join(CASES, path)), dirname(file), { recursive: true });
    mkdirSync(join(dirname(file), '.ai'));
    if (existsSync(join(dirname(file), 'fault.yaml'))) return [];
    const mode = file.endsWith('.mld') ? 'strict' : 'markdown';
    return diagnose(readFileSync(file, 'utf8'), path, mode, modules.around(file)).filter(
      ({ severity }) => severity === 'error',
    );
  });
  expect(wrong).toEqual([]);
});

describe.each([...new Set(all.map((path) => path.split('/')[0] ?? ''))])('%s', (area) => {
  const cases = all.filter((path) => path.startsWith(`${area}/`));
  const title = (path: string) => (path.split('/')[1] ?? '').replaceAll('-', ' ');
  for (const path of cases.filter((one) => !needsSandbox(one)))
    test.concurrent(title(path), () => check(path));
  for (const path of cases.filter(needsSandbox))
    test
      .skipIf(sandbox.kind === 'none')
      .concurrent(`${title(path)} (needs a sandbox)`, () => check(path));
});
