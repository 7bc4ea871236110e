// `GET scripts`, `scripts/ID` and `POST scripts/ID/run`: files of the project that `km script` would run. A `.mld`
// file is a script, and so is a `.md` file that is not an item and has a statement. The search is bounded, follows no
// links and stays in the project. The policy of the page decides which files are readable; the policy of scripts
// decides what a run may do, as in a terminal. Therefore only the role `approve` can run one.
import { type Dirent, readdirSync, realpathSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  compact,
  fail,
  isInside,
  isObject,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  plainText,
  readRegularFile,
} from '@kernmantle/core/base';
import { itemKindOf } from '@kernmantle/core/items';
import { personAuditRow, type Runtime } from '@kernmantle/core/runtime';
import { createCeilingVerifier } from '@kernmantle/core/trust';
import type { ScriptEffect, WatchedEnd } from '@kernmantle/script';
import type { ListedScript, ProvenanceView, ScriptDocument, ScriptList } from '../../model/api.ts';
import { answer, readBody } from '../answer.ts';
import type { AddRoutes, WebCaller, WebParts } from '../context.ts';
import { needs } from '../roles.ts';
import { createOnce } from './idempotency.ts';

const MAX_SCRIPTS = 500;
/** Bounds of the search: number of files and folders, and depth. */
const MAX_LOOKED = 20_000;
const MAX_DEPTH = 12;
const MAX_BYTES = 1024 * 1024;
const MAX_EFFECTS = 1000;
const MAX_TEXT = 64 * 1024;
const MAX_NODES = 1000;
/** Bound of parallel runs. More are refused instead of queued, because each can start processes. */
const AT_ONCE = 4;
/** Bound of cached answers for retries. The answers are large. */
const MAX_KEPT = 20;
const LONGEST_MS = 10 * 60_000;

const isScriptName = (name: string): boolean => /\.(mld|md)$/.test(name);
const isSkipped = (name: string): boolean => name.startsWith('.') || name === 'node_modules';
/** True if a text can contain a statement or a fence. The parser decides. */
const mayHoldStatement = (text: string): boolean => /^[ \t]*\/[a-z@=]|mlld-run/m.test(text);

/** Checks that policies for the web surface allow reading this file. */
function createReadCheck({ policies, library }: Runtime): (path: string) => Outcome<null> {
  const check = createCeilingVerifier(
    policies().policy.ceilings('web'),
    library.capabilities().catalog,
  );
  return (path) => check({ capability: 'fs.read', scope: { path } });
}

function documentAt(path: string): Outcome<string> {
  const read = readRegularFile(path, { max: MAX_BYTES, followsLinks: false });
  return 'bytes' in read
    ? ok(read.bytes.toString('utf8'))
    : fail('not_found', `the script cannot be read: ${read.problem.message}`);
}

function entriesOf(folder: string): Dirent[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.toSorted((a, b) => Number(a.name > b.name) - Number(a.name < b.name));
  } catch {
    return [];
  }
}

/** True if a document has at least one statement. A line such as `/usr/bin` is text, not a statement. */
async function isScript(path: string): Promise<boolean> {
  if (path.endsWith('.mld')) return true;
  const text = documentAt(path);
  if (!text.ok || !mayHoldStatement(text.output)) return false;
  if (itemKindOf(path, text.output) !== undefined) return false;
  const { parseScript } = await import('@kernmantle/script');
  const { body } = parseScript(text.output, { mode: 'markdown', file: path }).partial;
  return body.some(({ kind }) => kind !== 'text');
}

async function findScripts(runtime: Runtime): Promise<ScriptList> {
  const mayRead = createReadCheck(runtime);
  const scripts: ListedScript[] = [];
  const folders = [{ id: '', depth: 0 }];
  let scanned = 0;
  for (let at = folders.shift(); at; at = folders.shift()) {
    for (const entry of entriesOf(join(runtime.project, at.id))) {
      scanned += 1;
      if (scanned > MAX_LOOKED || scripts.length >= MAX_SCRIPTS) return { scripts, has_more: true };
      if (isSkipped(entry.name)) continue;
      const id = at.id === '' ? entry.name : `${at.id}/${entry.name}`;
      if (entry.isDirectory() && at.depth < MAX_DEPTH) folders.push({ id, depth: at.depth + 1 });
      if (!entry.isFile() || !isScriptName(entry.name) || !mayRead(id).ok) continue;
      const path = join(runtime.project, id);
      const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
      if (bytes <= MAX_BYTES && (await isScript(path))) scripts.push({ id, file: id, bytes });
    }
  }
  return { scripts };
}

interface FoundScript {
  readonly id: string;
  readonly path: string;
  readonly text: string;
}

/** Finds a script inside the project. Links and hidden folders are refused. */
function findScript(runtime: Runtime, id: string): Outcome<FoundScript> {
  const parts = id.split('/');
  const isPlain = parts.every((part) => part !== '' && !isSkipped(part) && !part.includes('\\'));
  if (id.length > 500 || id.includes('\0') || !isPlain || !isScriptName(id)) {
    return fail('not_found', 'script not found; `GET scripts` lists all scripts');
  }
  const path = resolve(runtime.project, ...parts);
  try {
    const isThere =
      isInside(path, runtime.project) &&
      realpathSync(path) === join(realpathSync(runtime.project), ...parts);
    if (!isThere) return fail('not_found', 'script not found; links are not followed');
  } catch {
    return fail('not_found', 'script not found; `GET scripts` lists all scripts');
  }
  const allowed = createReadCheck(runtime)(id);
  if (!allowed.ok) return allowed;
  const text = documentAt(path);
  return text.ok ? ok({ id, path, text: text.output }) : text;
}

const viewOf = ({ id, text }: FoundScript): ScriptDocument => ({ id, file: id, document: text });

const OUTCOMES: Readonly<Record<string, string>> = {
  permission_denied: 'denied',
  needs_input: 'needs_input',
  cancelled: 'interrupted',
};

/** Effect as the page gets it: secrets masked and texts cut. */
const effectOf = ({ kind, text, target, labels, taint, line }: ScriptEffect) => ({
  kind,
  text: masked(text.slice(0, MAX_TEXT)),
  ...(target !== undefined && { target }),
  labels: [...new Set([...labels, ...taint])].filter((label) => !/^(src|dir):/.test(label)),
  line,
});

type RunView = NonNullable<ScriptDocument['run']>;

function faultOf({ fault, diagnostics }: WatchedEnd): Pick<RunView, 'fault'> {
  if (!fault) return {};
  const { line, column } = diagnostics[0] ?? {};
  const { message, approval } = fault.detail;
  return {
    fault: {
      code: fault.code,
      message: masked(message),
      ...compact({ line, column }),
      ...(approval !== undefined && { approval: plainText(approval) }),
    },
  };
}

/** Runs a script to its end. A client that disconnects aborts the run. */
async function runScript(
  { runtime }: WebParts,
  script: FoundScript,
  payload: JsonObject,
  signal: AbortSignal,
): Promise<ScriptDocument> {
  const { explainScript } = await import('@kernmantle/script');
  const effects: ScriptEffect[] = [];
  let dropped = 0;
  const end = await explainScript(runtime, {
    path: script.path,
    name: script.id,
    text: script.text,
    payload,
    signal,
    onEffect(effect) {
      if (effects.length < MAX_EFFECTS) effects.push(effect);
      else dropped += 1;
    },
  });
  const { fault, code, explained } = end;
  const provenance =
    fault && explained.ok && explained.output.nodes.length <= MAX_NODES
      ? (explained.output as ProvenanceView)
      : undefined;
  return {
    ...viewOf(script),
    run: {
      outcome: fault ? (OUTCOMES[fault.code] ?? 'failed') : 'completed',
      exit_code: code,
      effects: effects.map(effectOf),
      ...(dropped > 0 && { has_more: true }),
      ...faultOf(end),
      ...(provenance && { provenance }),
    },
  };
}

/** Runs a few scripts at a time, each with a time limit and an audit row. */
function createScriptRuns(parts: WebParts) {
  let running = 0;
  return async (
    script: FoundScript,
    payload: JsonObject,
    by: WebCaller,
    disconnect: AbortSignal,
  ): Promise<Outcome<ScriptDocument>> => {
    if (running >= AT_ONCE) {
      return fail('unavailable', `${AT_ONCE} scripts are running; wait until one has ended`);
    }
    const row = personAuditRow({ who: by.who, channel: 'web' }, 'script', script.id);
    const audited = parts.runtime.audit.write({ ...row, decision: 'allowed' });
    if (!audited.ok) return audited;
    running += 1;
    try {
      const signal = AbortSignal.any([disconnect, AbortSignal.timeout(LONGEST_MS)]);
      return ok(await runScript(parts, script, payload, signal));
    } finally {
      running -= 1;
    }
  };
}

export const addScriptsRoutes: AddRoutes = (api, parts) => {
  const { runtime } = parts;
  const start = createScriptRuns(parts);
  const once = createOnce(MAX_KEPT);
  api.get('/scripts', needs('view'), async (context) =>
    answer(context, ok(await findScripts(runtime))),
  );
  api.post('/scripts/:id{.+}/run', needs('approve'), (context) =>
    once(context, async () => {
      const body = await readBody(context);
      if (!body.ok) return body;
      const { payload = {} } = body.output;
      if (!isObject(payload)) return fail('invalid_input', '`payload` must be an object');
      const script = findScript(runtime, context.req.param('id') ?? '');
      if (!script.ok) return script;
      return await start(script.output, payload, context.get('asker'), context.req.raw.signal);
    }),
  );
  api.get('/scripts/:id{.+}', needs('view'), (context) => {
    const script = findScript(runtime, context.req.param('id'));
    return answer(context, script.ok ? ok(viewOf(script.output)) : script);
  });
};
