// Runs scripts inside of items, such as the process of a directive, for the thread that runs the item.
// Every access goes through the thread, which counts and records it.
import { isAbsolute, relative, resolve } from 'node:path';
import {
  type ErrorCode,
  type Failure,
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type Outcome,
  ok,
  plainJson,
  readRegularFile,
  withoutPlaces,
} from '@kernmantle/core/base';
import {
  childFrame,
  type Descriptor,
  describe,
  EMPTY,
  type MaybePromise,
  mergeAll,
} from '@kernmantle/core/flow';
import type {
  ScriptAct,
  ScriptActions,
  ScriptAnswer,
  ScriptPort,
  ScriptRequest,
} from '@kernmantle/core/harness';
import type { ConnectorTool } from '@kernmantle/core/items';
import { refusesWriting, resolveProjectPath } from '@kernmantle/core/kernel';
import type { RuntimeContext } from '@kernmantle/core/runtime';
import type { ScriptOptions } from '../execute-script.ts';
import type { CodeResult, LoadedText, LookupResult, ProcessResult, ScriptWorld } from '../world.ts';
import { openScripts, type ScriptUse } from './script-setup.ts';

const textIn = (data: Json, name: string): string => {
  const value = isObject(data) ? data[name] : undefined;
  return typeof value === 'string' ? value : '';
};

/** Reads the recorded result of a process. If a hook has replaced the result, the output is empty. */
const processOf = (data: Json): ProcessResult => ({
  descriptor: recordedMarks(data),
  stdout: textIn(data, 'stdout'),
  stderr: textIn(data, 'stderr'),
  code: isObject(data) && typeof data.code === 'number' ? data.code : 0,
  signal: textIn(data, 'signal') || undefined,
});

const codeOf = (data: Json): CodeResult => ({
  descriptor: recordedMarks(data),
  stdout: textIn(data, 'stdout'),
  stderr: textIn(data, 'stderr'),
  value: isObject(data) ? data.value : undefined,
});

const recordedMarks = (data: Json): Descriptor =>
  describe(((isObject(data) ? data.marks : undefined) ?? {}) as Parameters<typeof describe>[0]);

/** Reads a recorded file. Its path is relative to the project. */
const loadedIn =
  (root: string) =>
  (data: Json): LoadedText => ({
    path: resolve(root, textIn(data, 'path')),
    text: textIn(data, 'text'),
    descriptor: recordedMarks(data),
  });

const withMarks = ({ descriptor, ...rest }: ProcessResult | CodeResult): Json => ({
  ...(plainJson(rest) as object),
  marks: marksIn(descriptor),
});

const marksIn = ({ labels, taint, sources }: Descriptor): Json => ({
  labels: [...labels],
  taint: [...taint],
  sources: [...sources],
});

const packedIn =
  (root: string) =>
  ({ path, text, descriptor }: LoadedText): Json => ({
    path: shownFile(root, path),
    text,
    marks: marksIn(descriptor),
  });

const mapped = <A, B>(outcome: Outcome<A>, change: (output: A) => B): Outcome<B> =>
  outcome.ok ? ok(change(outcome.output)) : outcome;

const pathsIn =
  (root: string) =>
  (data: Json): string[] =>
    (Array.isArray(data) ? data.filter((path) => typeof path === 'string') : []).map((path) =>
      resolve(root, path),
    );

const lookedOf =
  <T>(read: (data: Json) => T) =>
  (data: Json): LookupResult<T> => ({
    found: read(getOwn(data, 'found') ?? null),
    descriptor: recordedMarks(data),
  });

const packedLook = ({ found, descriptor }: LookupResult<unknown>): Json => ({
  found: plainJson(found),
  marks: marksIn(descriptor),
});

const namesOf = (data: Json): { name: string; isFolder: boolean }[] =>
  (Array.isArray(data) ? data : []).map((entry) => ({
    name: textIn(entry, 'name'),
    isFolder: isObject(entry) && entry.isFolder === true,
  }));

const toolsOf = (data: Json): ConnectorTool[] =>
  (Array.isArray(data) ? data : []).map((tool) => ({
    id: textIn(tool, 'id'),
    name: textIn(tool, 'name'),
    schema: isObject(tool) && isObject(tool.schema) ? tool.schema : {},
  }));

async function refusesWriteIn(
  root: string,
  actions: ScriptActions,
  path: string,
): Promise<Failure | undefined> {
  const place = resolveProjectPath(root, path);
  if (!place.ok) return place;
  const scope = { path: place.output.relative };
  const right = actions.check({ capability: 'fs.write', scope });
  return right.ok ? await refusesWriting(place.output) : right;
}

/** Returns the world of a script whose operations are steps of a thread. A replay receives the recorded results. */
function throughThread(world: ScriptWorld, actions: ScriptActions): ScriptWorld {
  const act = async <T>(
    about: ScriptAct,
    work: () => MaybePromise<Outcome<T>>,
    pack: (output: T) => Json,
    read: (data: Json) => T,
  ): Promise<Outcome<T>> =>
    mapped(
      await actions.act(about, async () => {
        const outcome = mapped(await work(), pack);
        return outcome.ok ? outcome : withoutPlaces(outcome, [[world.root, '']]);
      }),
      read,
    );
  // The recorded path is the same on every machine.
  const { root } = world;
  const shortPath = (path: string): string => shownFile(root, path) || '.';
  const look = (name: string, path: string): ScriptAct => ({
    name,
    effect: 'read',
    arguments: { path: shortPath(path) },
  });
  return {
    ...world,
    readFile: (path, frame) =>
      act(look('read', path), () => world.readFile(path, frame), packedIn(root), loadedIn(root)),
    glob: (pattern, frame) =>
      act(
        look('glob', pattern),
        () => world.glob(pattern, frame),
        ({ found, ...rest }) => packedLook({ ...rest, found: found.map(shortPath) }),
        lookedOf(pathsIn(root)),
      ),
    list: (path, frame) =>
      act(look('list', path), () => world.list(path, frame), packedLook, lookedOf(namesOf)),
    async exists(path, frame) {
      const lookup = await act(
        look('exists', path),
        async () => ok(await world.exists(path, frame)),
        packedLook,
        lookedOf((data) => data === true),
      );
      return lookup.ok ? lookup.output : { found: false, descriptor: EMPTY };
    },
    ...(world.connector && {
      connector: (name, frame) =>
        act(
          { name: 'connector', effect: 'read', arguments: { name } },
          async () => (await world.connector?.(name, frame)) ?? ok([]),
          plainJson,
          toolsOf,
        ),
    }),
    paths: (change) => actions.paths(change),
    tool: (...call) => actions.tool(...call),
    help: (...call) => actions.help(...call),
    model: (...call) => actions.model(...call),
    refusesWrite: (path) => refusesWriteIn(root, actions, path),
    writeFile(request, frame) {
      const { path, text, append } = request;
      // Writing a whole file twice has the same result as once, but an append must not be repeated.
      const about: ScriptAct = {
        name: append ? 'append' : 'write',
        effect: append ? 'write' : 'idempotent',
        arguments: { path: shortPath(path), text },
      };
      return act(
        about,
        () => world.writeFile(request, frame),
        plainJson,
        () => null,
      );
    },
    process(request, frame) {
      const { kind, ...settings } = request;
      const details = plainJson({ ...settings, folder: shortPath(settings.folder) });
      const about = { name: kind, arguments: { ...(details as object) } };
      const run = () => world.process(request, frame);
      return act({ ...about, effect: 'write' }, run, withMarks, processOf);
    },
    code(request, frame) {
      const { kind, source, parameters, stdin = null, folder } = request;
      const helpers = request.helpers.map(({ name, source: body = null, captured = [] }) => ({
        name,
        source: body,
        captured: plainJson(captured),
      }));
      const called = helpers.length > 0 ? { helpers } : {};
      const place = shortPath(folder);
      const codeSettings = {
        source,
        parameters: plainJson(parameters),
        stdin,
        folder: place,
        ...called,
      };
      const about: ScriptAct = { name: kind, effect: 'write', arguments: codeSettings };
      return act(about, () => world.code(request, frame), withMarks, codeOf);
    },
  };
}

/** Returns a world without access to anything. `asked` is true after the script tried to use it. */
function refusingWorld(world: ScriptWorld): { world: ScriptWorld; asked: () => boolean } {
  let isAsked = false;
  const refuse = (): Outcome<never> => {
    isAsked = true;
    return fail('permission_denied', 'this script cannot use files, processes, tools or models');
  };
  const later = async (): Promise<Outcome<never>> => refuse();
  return {
    asked: () => isAsked,
    world: {
      ...world,
      readFile: refuse,
      glob: refuse,
      list: refuse,
      exists: () => ({ found: refuse().ok, descriptor: EMPTY }),
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

/** Location of the text in the file that contains it. */
type Beginning = Pick<ScriptRequest, 'line' | 'column'>;

/** Runs a script. The marks of the answer include those of the printed text. A fault has its location in the file. */
export async function runMarked(
  text: string,
  options: ScriptOptions & { name: string },
  begins: Beginning = { line: 1, column: 1 },
): Promise<ScriptAnswer> {
  const { runScript, diagnosticOf } = await import('../execute-script.ts');
  const printed: Descriptor[] = [];
  const result = await runScript(text, {
    ...options,
    onEffect(effect) {
      const { kind, labels, taint } = effect;
      if (PRINTED.has(kind)) printed.push(describe({ labels: [...labels], taint: [...taint] }));
      options.onEffect?.(effect);
    },
  });
  const { fault, outputs } = result;
  const { name } = options;
  return {
    text: result.text,
    marks: mergeAll([...(outputs ? [outputs.meta.descriptor] : []), ...printed]),
    ...(outputs && { outputs }),
    ...(fault && {
      fault: withoutPlaces(
        {
          ok: false,
          error: withFileLocation(fault.outside(), diagnosticOf(fault, name), begins, name),
        },
        [[options.world.root, '']],
      ).error,
    }),
  };
}

/** A script before its run. `file` is its path, or a name in place of one. */
export interface ScriptSource {
  text: string;
  file: string;
  mode: 'strict' | 'markdown';
}

const MAX_FILE = 8 * 1024 * 1024;

/** Reads the text of a script file. A failure has the given code and names the file as `written`. */
export function readScript(path: string, written: string, code: ErrorCode): Outcome<string> {
  const read = readRegularFile(path, { max: MAX_FILE, followsLinks: true });
  return 'problem' in read
    ? fail(code, `\`${written}\` cannot be read: ${read.problem.message}`)
    : ok(read.bytes.toString('utf8'));
}

/** Returns a path relative to the project, or the absolute path of a file outside. */
export function shownFile(project: string, file: string): string {
  const short = relative(project, file);
  return short.startsWith('..') || isAbsolute(short) ? file : short;
}

/** Returns the fault with its location in the file that contains the script. */
function withFileLocation(
  fault: Fault,
  at: { file: string } & Beginning,
  begins: Beginning,
  name: string,
): Fault {
  const { file } = at;
  const isOwn = file === name;
  const line = at.line + (isOwn ? begins.line - 1 : 0);
  const column = at.column + (isOwn ? begins.column - 1 : 0);
  const message = `${file}:${line}:${column}: ${fault.detail.message}`;
  return { ...fault, detail: { ...fault.detail, message, file, line, column } };
}

/** In the audit the thread is the caller, and an approval request of a guard belongs to the thread. */
function asThread(actions: ScriptActions): ScriptUse {
  const { __thread_id: name = '' } = actions.auth();
  return {
    surface: 'thread',
    name,
    auth: () => actions.auth(),
    ask: (question, frame) => actions.ask(question, frame),
  };
}

export function createScriptPort(rooms: RuntimeContext): ScriptPort {
  const runOne = async (request: ScriptRequest): Promise<ScriptAnswer> => {
    const { text, file, inputs, isSigned, guards, actions, signal } = request;
    const { project } = rooms.open;
    const name = shownFile(project, file);
    // A script without a thread cannot create an approval request, so it runs again as a thread.
    let wantsPerson = false;
    const askLater = () => {
      wantsPerson = true;
      return ok({ answer: 'pending' } as const);
    };
    const { world: bare, ...setup } = await openScripts(rooms, {
      signal,
      guards,
      gate: () => request.gate(),
      ...(actions ? asThread(actions) : { name, ask: askLater }),
    });
    const reach = actions
      ? { world: throughThread(bare, actions), asked: () => false }
      : refusingWorld(bare);
    const { marks } = request;
    const options = {
      ...setup,
      ...(marks && { frame: childFrame(setup.frame, { influence: marks }) }),
      file,
      name,
      folder: project,
      mode: 'strict' as const,
      world: { ...reach.world, now: () => new Date(request.now) },
      inputs,
      mayBePrivileged: isSigned,
    };
    const answer = await runMarked(text, options, request);
    return { ...answer, ...((reach.asked() || wantsPerson) && { needsThread: true }) };
  };
  return Object.assign(runOne, {
    readPlan: async (text: string, variables: readonly string[]) =>
      (await import('../plan.ts')).readPlan(text, variables),
  });
}
