// Scripts inside items: the process of a directive, run for the thread that runs the directive. What
// they reach outside goes through the thread, which counts and records it.
import { isAbsolute, relative } from 'node:path';
import {
  type Fault,
  fail,
  isObject,
  type Json,
  type Outcome,
  ok,
  plainJson,
} from '../base/index.ts';
import { type Descriptor, describe, makeValue, mergeAll } from '../flow/index.ts';
import type {
  ScriptAct,
  ScriptActions,
  ScriptAnswer,
  ScriptPort,
  ScriptRequest,
} from '../harness/index.ts';
import type { Library } from '../items/index.ts';
import type { EmbeddedKernel } from '../kernel/index.ts';
import type {
  CodeResult,
  LoadedText,
  ProcessResult,
  ScriptEffect,
  ScriptResult,
  ScriptWorld,
} from '../script/index.ts';
import type { OpenProject } from './project.ts';
import { openScripts, type ScriptUse } from './scripts.ts';

const textIn = (data: Json, name: string): string => {
  const value = isObject(data) ? data[name] : undefined;
  return typeof value === 'string' ? value : '';
};

/** A hook may have put something else in the place of a result: then there was no output. */
const processOf = (data: Json): ProcessResult => ({
  stdout: textIn(data, 'stdout'),
  stderr: textIn(data, 'stderr'),
  code: isObject(data) && typeof data.code === 'number' ? data.code : 0,
  signal: textIn(data, 'signal') || undefined,
});

const codeOf = (data: Json): CodeResult => ({
  stdout: textIn(data, 'stdout'),
  stderr: textIn(data, 'stderr'),
  value: isObject(data) ? data.value : undefined,
});

function loadedOf(data: Json): LoadedText {
  const marks = (isObject(data) ? data.marks : undefined) as Parameters<typeof describe>[0];
  return { path: textIn(data, 'path'), text: textIn(data, 'text'), descriptor: describe(marks) };
}

const packed = ({ path, text, descriptor }: LoadedText): Json => {
  const { labels, taint, sources } = descriptor;
  return { path, text, marks: { labels: [...labels], taint: [...taint], sources: [...sources] } };
};

const mapped = <A, B>(outcome: Outcome<A>, change: (output: A) => B): Outcome<B> =>
  outcome.ok ? ok(change(outcome.output)) : outcome;

/** Looking at files: noted with what was seen, so that a second run sees the same. */
function looksThrough(world: ScriptWorld, { act }: ScriptActions) {
  const look = (name: string, path: string, work: Parameters<typeof act>[1]) =>
    act({ name, effect: 'read', arguments: { path } }, work);
  return {
    async readFile(...[path, frame]: Parameters<ScriptWorld['readFile']>) {
      const read = await look('read', path, async () =>
        mapped(await world.readFile(path, frame), packed),
      );
      return mapped(read, loadedOf);
    },
    async glob(...[pattern, frame]: Parameters<ScriptWorld['glob']>) {
      const found = await look('glob', pattern, async () =>
        mapped(await world.glob(pattern, frame), (paths) => [...paths]),
      );
      return mapped(found, (paths) =>
        Array.isArray(paths) ? paths.filter((path) => typeof path === 'string') : [],
      );
    },
    async list(...[path, frame]: Parameters<ScriptWorld['list']>) {
      const found = await look('list', path, async () =>
        mapped(await world.list(path, frame), plainJson),
      );
      return mapped(found, (names) =>
        (Array.isArray(names) ? names : []).map((entry) => ({
          name: textIn(entry, 'name'),
          isFolder: isObject(entry) && entry.isFolder === true,
        })),
      );
    },
    async exists(path: string) {
      const found = await look('exists', path, async () => ok(await world.exists(path)));
      return found.ok && found.output === true;
    },
  };
}

/** The world of a script whose acts are steps of a thread. */
function throughThread(world: ScriptWorld, actions: ScriptActions): ScriptWorld {
  return {
    ...world,
    ...looksThrough(world, actions),
    tool: (...given) => actions.tool(...given),
    help: (...given) => actions.help(...given),
    model: (...given) => actions.model(...given),
    async writeFile({ path, text, append, descriptor }, frame) {
      // A whole file may be written twice; what is added may not.
      const act: ScriptAct = {
        name: append ? 'append' : 'write',
        effect: append ? 'write' : 'idempotent',
        arguments: { path, text },
      };
      const done = await actions.act(act, () =>
        world.writeFile({ path, text, append, descriptor }, frame),
      );
      return mapped(done, () => null);
    },
    async process(request, frame) {
      const { kind, ...given } = request;
      const done = await actions.act(
        { name: kind, effect: 'write', arguments: { ...(plainJson(given) as object) } },
        async () => mapped(await world.process(request, frame), plainJson),
      );
      return mapped(done, processOf);
    },
    async code(request, frame) {
      const { kind, source, parameters, stdin = null, folder } = request;
      const given = { source, parameters: plainJson(parameters), stdin, folder };
      const done = await actions.act({ name: kind, effect: 'write', arguments: given }, async () =>
        mapped(await world.code(request, frame), plainJson),
      );
      return mapped(done, codeOf);
    },
  };
}

/** A world that is not there: `asked` tells that the script wanted more than to compute. */
function nowhere(world: ScriptWorld): { world: ScriptWorld; asked: () => boolean } {
  let isAsked = false;
  const refuse = (): Outcome<never> => {
    isAsked = true;
    return fail('permission_denied', 'this script may only compute');
  };
  const later = async (): Promise<Outcome<never>> => refuse();
  return {
    asked: () => isAsked,
    world: {
      ...world,
      readFile: refuse,
      glob: refuse,
      list: refuse,
      exists: () => refuse().ok,
      writeFile: refuse,
      process: later,
      code: later,
      tool: refuse,
      help: refuse,
      model: refuse,
    },
  };
}

const PRINTED: ReadonlySet<string> = new Set(['text', 'show', 'run']);

/** Follows what a script prints: all that comes out of it is marked with that, too. */
export function createPrinter() {
  const printed: Descriptor[] = [];
  return {
    effect({ kind, labels, taint }: ScriptEffect): void {
      if (PRINTED.has(kind)) printed.push(describe({ labels: [...labels], taint: [...taint] }));
    },
    marks: (outputs: ScriptResult['outputs']): Descriptor =>
      mergeAll([...(outputs ? [outputs.meta.descriptor] : []), ...printed]),
  };
}

/** As a person would look for it: from the project. */
export function shownFile(project: string, file: string): string {
  const short = relative(project, file);
  return short.startsWith('..') || isAbsolute(short) ? file : short;
}

/** The same fault, with its place in the file that the script is part of. */
export function placed(
  fault: Fault,
  at: { file: string; line: number; column: number },
  { line, column }: Pick<ScriptRequest, 'line' | 'column'>,
  name: string,
): Fault {
  const isOwn = at.file === name;
  const place = isOwn ? { ...at, line: at.line + line - 1, column: at.column + column - 1 } : at;
  const message = `${place.file}:${place.line}:${place.column}: ${fault.detail.message}`;
  const { file } = place;
  return {
    ...fault,
    detail: { ...fault.detail, message, file, line: place.line, column: place.column },
  };
}

/** In the audit it is the thread that acts, and a guard that asks does so through it. */
function asThread(actions: ScriptActions): ScriptUse {
  const { __thread_id: name = '' } = actions.auth();
  return {
    surface: 'thread',
    name,
    auth: () => actions.auth(),
    async ask({ questions }, frame) {
      const asked = await actions.help('escalate', makeValue(questions.join('; ')), frame);
      if (!asked.ok) return asked;
      return ok(textIn(asked.output.data, 'decision') === 'approved' ? 'approved' : 'denied');
    },
  };
}

export function createScriptPort(
  open: OpenProject,
  library: Library,
  kernel: EmbeddedKernel,
): ScriptPort {
  return async (request): Promise<ScriptAnswer> => {
    const { text, file, inputs, isSigned, actions, signal } = request;
    const { runScript, diagnosticOf } = await import('../script/index.ts');
    const name = shownFile(open.project, file);
    const {
      world: bare,
      frame,
      act,
    } = await openScripts(open, library, kernel, {
      signal,
      gate: () => request.gate(),
      ...(actions ? asThread(actions) : { name }),
    });
    const reach = actions
      ? { world: throughThread(bare, actions), asked: () => false }
      : nowhere(bare);
    const printer = createPrinter();
    const done = await runScript(text, {
      file,
      name,
      folder: open.project,
      mode: 'strict',
      world: { ...reach.world, now: () => new Date(request.now) },
      frame,
      act,
      inputs,
      mayBePrivileged: isSigned,
      onEffect: (effect) => printer.effect(effect),
    });
    const { fault, outputs } = done;
    return {
      text: done.text,
      marks: printer.marks(outputs),
      ...(outputs ? { outputs } : {}),
      ...(fault ? { fault: placed(fault.fault, diagnosticOf(fault, name), request, name) } : {}),
      ...(reach.asked() ? { needsThread: true } : {}),
    };
  };
}
