// Creates the world of a script in a project, with the rights of the caller. The language is loaded with
// the first script.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Outcome,
  ok,
  parseYaml,
  systemRandom,
} from '@kernmantle/core/base';
import {
  type ActPorts,
  childFrame,
  createFrame,
  createLabelRecords,
  describe,
  type Frame,
  type GuardSet,
  type LabelRecords,
  type MaybePromise,
  makeValue,
  mergeDescriptors,
  type Ports,
  type RecordEntry,
} from '@kernmantle/core/flow';
import { connectorTools, type ItemKind } from '@kernmantle/core/items';
import {
  type Authority,
  auditRow,
  type Caller,
  exemptionsIn,
  type Primitive,
  previewTool,
  readsOf,
} from '@kernmantle/core/kernel';
import {
  type AskPerson,
  askOutside,
  BUNDLE,
  createAuthorize,
  findProject,
  labelRecords,
  type OpenProject,
  openModel,
  type RuntimeContext,
  recordsFolder,
  throwIfNotRecorded,
} from '@kernmantle/core/runtime';
import type { ScriptWorld } from '../world.ts';

export interface ScriptUse {
  name?: string;
  signal?: AbortSignal;
  /** Returns the token of the caller. It is called before every operation. Absent: the operator's policy applies. */
  auth?: () => Pick<Caller, '__auth' | '__thread_id' | '__directive_id'>;
  /** Surface of the call. Absent: `script`. */
  surface?: string;
  /** Capability names that further restrict the rights of the caller. */
  only?: readonly string[];
  /** Idempotency key of the script's call. Its own calls get keys derived from it. Absent: they get random keys. */
  key?: string;
  /** Called before every operation. A failure stops the script. */
  gate?: () => Outcome<null>;
  /** Sends prompts through the calling thread. */
  model?: ScriptWorld['model'];
  /** Collects the origin of each value. */
  trail?: NonNullable<Ports['trail']>;
  /** Guards of the calling thread. A script cannot switch them off. */
  guards?: GuardSet;
  /** Answers the approval requests of guards. Absent: the requests wait in the queue. */
  ask?: NonNullable<Ports['ask']>;
  /** Asks a person at the terminal, besides the queue. */
  person?: AskPerson;
}

/** Parts of `ScriptOptions` that the project decides. */
interface ScriptSetup {
  world: ScriptWorld;
  frame: Frame;
  act: ActPorts;
  signal?: AbortSignal;
}

/** Answers every approval request of a call that a person has approved. */
export const APPROVED: NonNullable<Ports['ask']> = () => ok({ answer: 'approved' });
const SURFACE = 'script';
/** Milliseconds for which an authority is reused. Each right is still checked every time. */
const FRESH_MS = 50;
const PROJECT_SIGNS = ['.ai', 'mlld-config.json', 'package.json', '.git'];
const KINDS: readonly ItemKind[] = ['tool', 'directive', 'knowledge'];
const MAX_ANSWER = 4096;

/** Returns the nearest folder above that is a project; otherwise the folder itself. */
export const findScriptProject = (folder: string, home: string): string =>
  findProject(folder, home, PROJECT_SIGNS);

/** Returns the label records. The user's folder has those from before the project got a folder for records. */
function recordsOf(open: OpenProject): LabelRecords {
  const { project, home } = open;
  const records = labelRecords(open);
  if (recordsFolder(project, home) === home) return records;
  const older = createLabelRecords(join(home, 'labels.jsonl'), project);
  return {
    ...records,
    recall: (path, hash) => records.recall(path, hash) ?? older.recall(path, hash),
    within: (...view) => mergeDescriptors(records.within(...view), older.within(...view)),
    looked: (...places) => mergeDescriptors(records.looked(...places), older.looked(...places)),
    linked: (...file) => mergeDescriptors(records.linked(...file), older.linked(...file)),
  };
}

const fresh = (): string => Buffer.from(systemRandom(12)).toString('hex');

/** Returns a function that gives the current authority and reuses it for `FRESH_MS`. */
function cachedAuthority(
  open: OpenProject,
  authorize: ReturnType<typeof createAuthorize>,
  caller: () => Caller,
): () => Outcome<Authority> {
  let cached: { at: number; authority: Outcome<Authority> } | undefined;
  return () => {
    const now = open.clock.monotonic();
    if (!cached || now - cached.at > FRESH_MS) cached = { at: now, authority: authorize(caller()) };
    return cached.authority;
  };
}

/** Returns a model without tools, for a script outside of a thread. */
function modelFor(rooms: RuntimeContext, use: ScriptUse) {
  const { open, library } = rooms;
  const model: ScriptWorld['model'] = async ({ prompt, tier = 'general', onText }, frame) => {
    const llm = await import('@kernmantle/core/llm');
    const models = llm.withStandIn(
      llm.withEndpoints(library.config('models'), open.env),
      open.own.standIn,
    );
    const isTier = getOwn(getOwn(models, 'tiers'), tier) !== undefined;
    const resolved = llm.resolveModel(models, isTier ? { tier } : { model_id: tier });
    if (!resolved.ok) return resolved;
    const allowed = open.policies.current().policy.allowsModel(resolved.output.model);
    if (!allowed.ok) return allowed;
    const { key_variable, provider, max_output = MAX_ANSWER } = resolved.output;
    if (key_variable !== undefined && !open.env[key_variable]) {
      return fail(
        'model_unavailable',
        `provider \`${provider}\` needs a key: set \`${key_variable}\``,
      );
    }
    const { name = '', signal } = use;
    const ask = await openModel(rooms);
    const line = await ask(resolved.output, { surface: SURFACE, name, frame });
    if (!line.ok) return line;
    const answer = await line.output.ask(
      {
        system: '',
        messages: [{ role: 'user', content: [{ type: 'text', text: prompt.text }] }],
        tools: [],
        maxTokens: Math.min(max_output, MAX_ANSWER),
        written: llm.createWrittenMessages(),
        reading: { requestBytes: Buffer.byteLength(prompt.text), ...(onText && { onText }) },
      },
      signal ?? new AbortController().signal,
    );
    if (!answer.ok) return answer;
    const { content, broken } = answer.output;
    if (broken) return fail('stream_incomplete', 'the answer of the model is incomplete');
    const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    return ok(makeValue(text, { descriptor: describe({ taint: ['src:llm'] }) }));
  };
  return model;
}

/** The patterns of dangerous operations, read when a policy has an `allow` list. */
let cachedDangers: readonly string[] | undefined;
function dangers(): readonly string[] {
  if (cachedDangers) return cachedDangers;
  const file = join(BUNDLE, 'config/danger.yaml');
  const { value } = parseYaml(readFileSync(file, 'utf8'));
  const listed = isObject(value) ? Object.values(value).flat() : [];
  const patterns = listed.filter((one) => typeof one === 'string');
  // Without patterns nothing would be dangerous, so a missing list is an error.
  if (patterns.length === 0) throw new Error(`${file} lists no patterns`);
  cachedDangers = patterns;
  return patterns;
}

/** Returns the preview of a tool call for approval requests. */
const previewsIn =
  ({ open, library }: RuntimeContext): NonNullable<ScriptWorld['previewTool']> =>
  async (id, inputs) => {
    const found = library.find('tool', id);
    const ports = { library, projectRoot: open.project, labels: recordsOf(open) };
    return found.ok ? await previewTool(ports, found.output, inputs) : undefined;
  };

export async function openScripts(rooms: RuntimeContext, use: ScriptUse): Promise<ScriptSetup> {
  const { createScriptWorld } = await import('../world/create-world.ts');
  const { open, library, kernel } = rooms;
  const { project, home, clock, env, audit } = open;
  const { name = '', auth, gate, only, signal, surface = SURFACE, guards, person, trail } = use;
  const ask = use.ask ?? askOutside(open, { surface, name, person });
  const { policy } = open.policies.current();
  const who = { surface, caller: name };
  const subjectNow = (): string => {
    const authority = authorityNow();
    return authority.ok ? authority.output.subject : 'none';
  };
  const write = (entry: RecordEntry): MaybePromise<void> => {
    const written = audit.write(auditRow(entry, { ...who, subject: subjectNow() }));
    const stored = written.ok ? audit.kept?.() : undefined;
    return stored ? stored.then(throwIfNotRecorded) : throwIfNotRecorded(written);
  };
  /** Writes an audit row for a refusal or an exception to policies. Other statements leave no row here. */
  const record = (entry: RecordEntry): MaybePromise<void> => {
    const { outcome } = entry;
    const isRefused = !outcome.ok && outcome.error.code === 'permission_denied';
    if (isRefused || (outcome.ok && exemptionsIn(entry) !== '')) return write(entry);
  };
  const frame = createFrame({
    policy,
    ports: { ask, ...(trail && { trail }) },
    ...(guards && { guards }),
  });
  const act = { record, ...(gate && { gate }) };
  const currentCaller = (): Caller => ({
    surface,
    name,
    frame,
    ...auth?.(),
    ...(only && { only }),
    ...(signal && { signal }),
  });
  const authorityNow = cachedAuthority(open, createAuthorize(open, library), currentCaller);
  let calls = 0;
  const nextKey = (): string => {
    calls += 1;
    return use.key === undefined ? fresh() : hash('sha256', `${use.key}:${calls}`).slice(0, 32);
  };
  const world = createScriptWorld({
    root: project,
    clock,
    env,
    personsHome: env.HOME ?? homedir(),
    dangers,
    signal: signal ?? new AbortController().signal,
    closed: [home],
    readsAnywhere: auth === undefined && only === undefined,
    labels: recordsOf(open),
    authority: authorityNow,
    subprocess: () => open.primitives.get('subprocess') as Primitive,
    kernel,
    caller: (inner) => ({
      ...currentCaller(),
      idempotencyKey: nextKey(),
      // The guards and hooks of the script have judged this call. Policies and privileged guards judge it
      // again, and so do guards on facts that only the tool declares. The approval of the statement applies
      // to its call.
      frame: {
        ...childFrame(inner, {
          selection: { ...inner.selection, partOf: inner },
          ...(inner.isApproved && { ports: { ask: APPROVED } }),
        }),
        isHooking: true,
      },
      act: { record: write },
      ...(inner.approved !== undefined && { approved: inner.approved }),
    }),
    kindOf: (id) => KINDS.find((kind) => library.find(kind, id).ok),
    readsOf(id) {
      const found = library.find('tool', id);
      return found.ok ? readsOf(found.output) : undefined;
    },
    previewTool: previewsIn(rooms),
    connector: (name) => connectorTools(library, name),
    model: use.model ?? modelFor(rooms, use),
    unguessable: fresh,
    audit(operation, failure: Failure | undefined) {
      const { code, detail } = failure?.error ?? {};
      const refusal = code === 'permission_denied' ? 'denied' : 'failed';
      return audit.write({
        ...who,
        subject: subjectNow(),
        operation,
        target: '',
        decision: failure ? refusal : 'allowed',
        reason: detail ? `${code}: ${detail.message}` : '',
      });
    },
  });
  return { world, frame, act, ...(signal && { signal }) };
}
