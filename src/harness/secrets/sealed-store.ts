// The registry as the harness sees it: what is known to be secret is taken out of values on their way in
// and put back on the way out, with one vault for each thread that is at work here. INVARIANT: no known
// secret reaches the file as readable text, and only whoever takes a thread up again sees it restored;
// another thread that reads the journal sees references.
import { type Json, type JsonObject, type Outcome, ok, parseJson } from '../../base/index.ts';
import {
  type Answer,
  type Commit,
  createVault,
  type Held,
  type NewApproval,
  type NewEvent,
  type NewThread,
  type Sealed,
  type Store,
  type StoredEvent,
  type Vault,
} from '../../store/index.ts';
import { readStored } from '../thread/read-journal.ts';
import { eventSecrets, inputSecrets, type KnownSecrets } from './known-secrets.ts';

export interface SealPorts {
  store: Store;
  known: KnownSecrets;
  /** From the user's folder. */
  key(): Outcome<Uint8Array>;
}

export interface SealedStore {
  store: Store;
  /** A journal with its secrets in place: for whoever holds the thread, and for replay. */
  history(thread: string): Answer<StoredEvent[]>;
  /** This process is done with the thread. */
  letGo(thread: string): void;
}

/** What is sealed with one thread's vault. */
interface Seal {
  readonly vault: Vault;
  hide<T extends Json>(value: T): Outcome<T>;
  reveal<T extends Json>(value: T): Outcome<T>;
  /** What they make known as secret counts from here on. */
  hideEvents(events: readonly NewEvent[]): Outcome<NewEvent[]>;
  revealEvents(events: readonly StoredEvent[]): Outcome<StoredEvent[]>;
}

/** Each with its data changed; the first failure is the answer. */
function eachData<E extends NewEvent>(
  events: readonly E[],
  change: (data: JsonObject) => Outcome<JsonObject>,
): Outcome<E[]> {
  const changed: E[] = [];
  for (const event of events) {
    const data = change(event.data);
    if (!data.ok) return data;
    changed.push({ ...event, data: data.output });
  }
  return ok(changed);
}

function createSeal(vault: Vault, thread: string, known: KnownSecrets): Seal {
  const seal: Seal = {
    vault,
    // Texts change, shapes do not.
    hide: <T extends Json>(value: T) => vault.hide(value, known.redactor(thread)) as Outcome<T>,
    reveal: <T extends Json>(value: T) => vault.reveal(value) as Outcome<T>,
    hideEvents(events) {
      for (const { type, data } of events) known.learn(thread, eventSecrets(type, data));
      return eachData(events, (data) => seal.hide(data));
    },
    revealEvents(events) {
      // Also what came from a parent, or from tools that are no longer there.
      known.learn(thread, vault.texts());
      const shown = eachData(events, (data) => seal.reveal(data));
      for (const { type, data } of shown.ok ? shown.output : []) {
        known.learn(thread, eventSecrets(type, data));
      }
      return shown;
    },
  };
  return seal;
}

function createSeals({ store, known, key }: SealPorts) {
  const seals = new Map<string, Seal>();
  function make(thread: string, sealed: readonly Sealed[]): Outcome<Seal> {
    const secret = key();
    if (!secret.ok) return secret;
    const vault = createVault({ sealed, thread, key: secret.output });
    if (!vault.ok) return vault;
    const seal = createSeal(vault.output, thread, known);
    seals.set(thread, seal);
    return ok(seal);
  }
  return {
    /** Of a thread that is about to be born. */
    fresh: (thread: string) => make(thread, []),
    /** Loaded when this process has not held it before. */
    async of(thread: string): Answer<Seal> {
      const before = seals.get(thread);
      if (before) return ok(before);
      const sealed = await store.secrets(thread);
      if (!sealed.ok) return sealed;
      // Somebody may have been faster: there is one vault a thread.
      const meanwhile = seals.get(thread);
      return meanwhile ? ok(meanwhile) : make(thread, sealed.output);
    },
    letGo: (thread: string) => void seals.delete(thread),
  };
}

type Seals = ReturnType<typeof createSeals>;

const MAX_NESTING = 200;
const asBytes = (value: JsonObject): Uint8Array => Buffer.from(JSON.stringify(value));
const asJson = (bytes: Uint8Array): Outcome<JsonObject> =>
  parseJson(Buffer.from(bytes).toString(), MAX_NESTING) as Outcome<JsonObject>;

/** A thread that is going to be: sealed, and how it was. */
interface Newborn {
  thread: NewThread;
  inputs: Json;
  seal: Seal;
  secrets: readonly Sealed[];
}

function sealThread(
  seals: Seals,
  known: KnownSecrets,
  thread: NewThread,
  parent?: string,
): Outcome<Newborn> {
  if (parent !== undefined) known.inherit(thread.id, parent);
  known.learn(thread.id, inputSecrets(thread.inputs));
  const seal = seals.fresh(thread.id);
  if (!seal.ok) return seal;
  const events = seal.output.hideEvents(thread.events);
  if (!events.ok) return events;
  const inputs = seal.output.hide(thread.inputs);
  if (!inputs.ok) return inputs;
  const secrets = seal.output.vault.unkept();
  return ok({
    thread: { ...thread, inputs: inputs.output, events: events.output, secrets },
    inputs: thread.inputs,
    seal: seal.output,
    secrets,
  });
}

/** Born: what was sealed for it is kept, and whoever holds it sees what it was given. */
function born(held: Held, { inputs, seal, secrets }: Newborn): Held {
  seal.vault.kept(secrets);
  return { ...held, row: { ...held.row, inputs } };
}

function sealThreads(store: Store, known: KnownSecrets, seals: Seals) {
  return async (thread: NewThread): Answer<Held> => {
    const sealed = sealThread(seals, known, thread);
    if (!sealed.ok) return sealed;
    const held = await store.createThread(sealed.output.thread);
    if (held.ok) return ok(born(held.output, sealed.output));
    seals.letGo(thread.id);
    return held;
  };
}

/** People see questions: without secrets, and bound to them as they are shown. */
function maskedQuestions(
  known: KnownSecrets,
  thread: string,
  ask: readonly NewApproval[],
): NewApproval[] {
  const masked = (value: JsonObject): JsonObject => known.redactor(thread).json(value);
  return ask.map((one) => ({ ...one, binding: masked(one.binding), shown: masked(one.shown) }));
}

function sealCommits(store: Store, known: KnownSecrets, seals: Seals): Store['commit'] {
  return async (thread, commit) => {
    const seal = await seals.of(thread);
    if (!seal.ok) return seal;
    const [first, ...rest] = commit.events;
    const events = seal.output.hideEvents([first, ...rest]);
    if (!events.ok) return events;
    const result = commit.result === undefined ? ok(undefined) : seal.output.hide(commit.result);
    if (!result.ok) return result;
    const children: Newborn[] = [];
    for (const child of commit.children ?? []) {
      const sealed = sealThread(seals, known, child, thread);
      if (!sealed.ok) return sealed;
      children.push(sealed.output);
    }
    const secrets = seal.output.vault.unkept();
    const [one = first, ...more] = events.output;
    const done = await store.commit(thread, {
      ...commit,
      events: [one, ...more],
      ...(result.output === undefined ? {} : { result: result.output }),
      ...(children.length > 0 && { children: children.map((child) => child.thread) }),
      ...(commit.ask && { ask: maskedQuestions(known, thread, commit.ask) }),
      ...(secrets.length > 0 && { secrets }),
    } satisfies Commit);
    if (!done.ok) {
      for (const child of children) seals.letGo(child.thread.id);
      return done;
    }
    seal.output.vault.kept(secrets);
    const held = done.output.children.map((child, at) => {
      const sealed = children[at];
      return sealed ? born(child, sealed) : child;
    });
    return ok({ ...done.output, children: held });
  };
}

/** Whoever takes a thread up sees what it was given. */
function sealClaims(store: Store, known: KnownSecrets, seals: Seals): Store['claim'] {
  return async (thread, owner, how) => {
    const held = await store.claim(thread, owner, how);
    if (!held.ok) return held;
    const seal = await seals.of(thread);
    const inputs = seal.ok ? seal.output.reveal(held.output.row.inputs) : seal;
    if (!inputs.ok) {
      await store.release(held.output);
      return inputs;
    }
    known.learn(thread, inputSecrets(inputs.output));
    return ok({ ...held.output, row: { ...held.output.row, inputs: inputs.output } });
  };
}

/** Artifacts of threads are JSON, and no different from what stands in a journal. */
function sealArtifacts(
  store: Store,
  known: KnownSecrets,
  seals: Seals,
): Pick<Store, 'putArtifact' | 'artifact'> {
  return {
    async putArtifact(thread, bytes) {
      const value = asJson(bytes);
      if (!value.ok) return value;
      const seal = await seals.of(thread);
      if (!seal.ok) return seal;
      known.learn(thread, eventSecrets('tool_result', value.output));
      const hidden = seal.output.hide(value.output);
      if (!hidden.ok) return hidden;
      const secrets = seal.output.vault.unkept();
      const put = await store.putArtifact(thread, asBytes(hidden.output), secrets);
      if (put.ok) seal.output.vault.kept(secrets);
      return put;
    },
    async artifact(thread, hash) {
      const bytes = await store.artifact(thread, hash);
      const value = bytes.ok ? asJson(bytes.output) : bytes;
      if (!value.ok) return value;
      const seal = await seals.of(thread);
      if (!seal.ok) return seal;
      const shown = seal.output.reveal(value.output);
      return shown.ok ? ok(asBytes(shown.output)) : shown;
    },
  };
}

export function sealStore(ports: SealPorts): SealedStore {
  const { store, known } = ports;
  const seals = createSeals(ports);
  return {
    store: {
      ...store,
      ...sealArtifacts(store, known, seals),
      createThread: sealThreads(store, known, seals),
      commit: sealCommits(store, known, seals),
      claim: sealClaims(store, known, seals),
      approvals: (filter) =>
        store.approvals(
          filter.binding && filter.thread !== undefined
            ? { ...filter, binding: known.redactor(filter.thread).json(filter.binding) }
            : filter,
        ),
    },
    async history(thread) {
      const events = await readStored(store, thread);
      if (!events.ok) return events;
      const seal = await seals.of(thread);
      return seal.ok ? seal.output.revealEvents(events.output) : seal;
    },
    letGo(thread) {
      seals.letGo(thread);
      known.forget(thread);
    },
  };
}
