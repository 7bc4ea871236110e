// Creates an environment in memory for tests of the language: a map of files with their marks, commands that a function
// answers, and js blocks in the real engine.
import { fail, matchGlob, type Outcome, ok } from '@kernmantle/core/base';
import {
  createFrame,
  type Descriptor,
  describe,
  EMPTY,
  type Frame,
  fileLabels,
  makeValue,
  mergeDescriptors,
} from '@kernmantle/core/flow';
import {
  runScript,
  type ScriptEffect,
  type ScriptOptions,
} from '../../packages/script/src/execute-script.ts';
import { createJsEngine } from '../../packages/script/src/js/engine.ts';
import type { JsEngine, ProcessRequest, ScriptWorld } from '../../packages/script/src/world.ts';

export const ROOT = '/project';

export interface Stored {
  readonly text: string;
  readonly descriptor: Descriptor;
}

export interface WorldFixture extends ScriptWorld {
  /** Files by absolute path. */
  readonly files: Map<string, Stored>;
  /** All command lines and shell bodies in order. */
  readonly commands: string[];
}

const fileMarks = (path: string): Descriptor =>
  describe({ taint: fileLabels(ROOT, path), sources: [`file:${path}`] });

/** Implements `echo` and `cat` without a process. */
function answerOf({ stdin, env }: ProcessRequest, line: string): string {
  const said = /^echo\s+(.*)$/s.exec(line.trim())?.[1];
  if (said === undefined) return stdin ?? '';
  return `${said.replace(/^(['"])(.*)\1$/s, '$2').replace(/\$(\w+)/g, (_, name: string) => env[name] ?? '')}\n`;
}

/** Creates the environment. Without `js` the real engine runs blocks. */
export function createWorldFixture(
  files: Readonly<Record<string, string>> = {},
  js?: JsEngine,
): WorldFixture {
  const stored = new Map<string, Stored>();
  const put = (path: string, text: string, marks?: Descriptor): void => {
    const descriptor = marks ? mergeDescriptors(marks, fileMarks(path)) : fileMarks(path);
    stored.set(path, { text, descriptor });
  };
  for (const [name, text] of Object.entries(files)) put(`${ROOT}/${name}`, text);
  const commands: string[] = [];
  const missing = (what: string): Outcome<never> => fail('not_found', `there is no ${what}`);
  return {
    files: stored,
    commands,
    root: ROOT,
    now: () => new Date(0),
    readFile(path) {
      const found = stored.get(path);
      return found ? ok({ path, ...found }) : missing(`file \`${path}\``);
    },
    glob: (pattern) => {
      const found = [...stored.keys()].filter((path) => matchGlob(pattern, path)).toSorted();
      return ok({ found, descriptor: EMPTY });
    },
    exists: (path) => ({ found: stored.has(path), descriptor: EMPTY }),
    list(path) {
      const inside = [...stored.keys()].filter((one) => one.startsWith(`${path}/`));
      const names = new Set(inside.map((one) => one.slice(path.length + 1).split('/')[0] ?? ''));
      if (names.size === 0) return missing(`folder \`${path}\``);
      const found = [...names].map((name) => ({
        name,
        isFolder: !stored.has(`${path}/${name}`),
      }));
      return ok({ found, descriptor: EMPTY });
    },
    writeFile({ path, text, append, descriptor }) {
      const before = append ? stored.get(path) : undefined;
      const marks = before ? mergeDescriptors(before.descriptor, descriptor) : descriptor;
      put(path, `${before?.text ?? ''}${text}`, marks);
      return ok(null);
    },
    process(request) {
      const lines = typeof request.source === 'string' ? [request.source] : request.source;
      commands.push(...lines);
      const stdout = lines.map((line) => answerOf(request, line)).join('');
      request.onOutput?.(stdout);
      return Promise.resolve(
        ok({ stdout, stderr: '', code: 0, signal: undefined, descriptor: EMPTY }),
      );
    },
    code: () => Promise.resolve(missing('other language here')),
    js: js ?? createJsEngine(),
    tool: (id, parameters) =>
      ok(makeValue({ id, ...Object.fromEntries([...parameters].map(([k, v]) => [k, v.data])) })),
    help: () => missing('person here'),
    model({ prompt, onText }) {
      const text = `model: ${prompt.text}`;
      for (const piece of text.split(/(?= )/)) onText?.(piece);
      return ok(makeValue(text, { descriptor: describe({ taint: ['src:llm'] }) }));
    },
  };
}

export interface Played {
  readonly text: string;
  readonly effects: readonly ScriptEffect[];
  /** `code: message` of a failure. Empty if the script completed. */
  readonly fault: string;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly world: WorldFixture;
}

export interface PlayOptions extends Partial<Omit<ScriptOptions, 'world' | 'frame'>> {
  files?: Readonly<Record<string, string>>;
  world?: WorldFixture;
  frame?: Frame;
}

/** Runs a script in strict mode in a new environment that accepts privileged guards. */
export async function play(text: string, options: PlayOptions = {}): Promise<Played> {
  const { files, world = createWorldFixture(files), frame = createFrame(), ...rest } = options;
  const effects: ScriptEffect[] = [];
  const result = await runScript(text, {
    file: `${ROOT}/script.mld`,
    name: 'script.mld',
    mode: 'strict',
    mayBePrivileged: true,
    mayLift: true,
    ...rest,
    world,
    frame,
    onEffect(effect) {
      effects.push(effect);
      rest.onEffect?.(effect);
    },
  });
  const fault = result.fault?.fault;
  return {
    text: result.text,
    effects,
    fault: fault ? `${fault.code}: ${fault.detail.message}` : '',
    detail: fault?.detail ?? {},
    world,
  };
}
