// What is known to be secret, taken out of values on their way into the registry and put back on the
// way out: one vault for each thread that is at work here.
import { type Json, type JsonObject, type Outcome, ok, parseJson } from '../../base/index.ts';
import {
  type Approvals,
  type Artifacts,
  type Change,
  createVault,
  type NewEvent,
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

export interface Seal {
  hide<T extends Json>(thread: string, value: T): Outcome<T>;
  reveal<T extends Json>(thread: string, value: T): Outcome<T>;
  /** What they make known as secret counts from here on. */
  hideEvents(thread: string, events: readonly NewEvent[]): Outcome<NewEvent[]>;
  revealEvents(thread: string, events: readonly StoredEvent[]): Outcome<StoredEvent[]>;
  letGo(thread: string): void;
}

function createVaults({ store, key }: SealPorts) {
  const vaults = new Map<string, Vault>();
  return {
    of(thread: string): Outcome<Vault> {
      const before = vaults.get(thread);
      if (before) return ok(before);
      const secret = key();
      if (!secret.ok) return secret;
      const vault = createVault({ secrets: store.secrets, thread, key: secret.output });
      if (vault.ok) vaults.set(thread, vault.output);
      return vault;
    },
    letGo: (thread: string) => void vaults.delete(thread),
  };
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

export function createSeal(ports: SealPorts): Seal {
  const { known } = ports;
  const vaults = createVaults(ports);
  const seal: Seal = {
    hide<T extends Json>(thread: string, value: T) {
      const vault = vaults.of(thread);
      return vault.ok ? (vault.output.hide(value, known.redactor(thread)) as Outcome<T>) : vault;
    },
    reveal<T extends Json>(thread: string, value: T) {
      const vault = vaults.of(thread);
      return vault.ok ? (vault.output.reveal(value) as Outcome<T>) : vault;
    },
    hideEvents(thread, events) {
      for (const { type, data } of events) known.learn(thread, eventSecrets(type, data));
      return eachData(events, (data) => seal.hide(thread, data));
    },
    revealEvents(thread, events) {
      const vault = vaults.of(thread);
      if (!vault.ok) return vault;
      // Also what came from a parent, or from tools that are no longer there.
      known.learn(thread, vault.output.texts());
      const shown = eachData(events, (data) => seal.reveal(thread, data));
      for (const { type, data } of shown.ok ? shown.output : []) {
        known.learn(thread, eventSecrets(type, data));
      }
      return shown;
    },
    letGo(thread) {
      vaults.letGo(thread);
      known.forget(thread);
    },
  };
  return seal;
}

// The registry as the harness sees it: what it writes is sealed on the way in. INVARIANT: no known
// secret reaches the file as readable text, and only whoever takes a thread up again sees it restored;
// another thread that reads the journal sees references.

export interface SealedStore {
  store: Store;
  /** A journal with its secrets in place: for replay. */
  history(thread: string): Outcome<StoredEvent[]>;
}

/** People see questions: without secrets, and bound to them as they are shown. */
function sealApprovals({ approvals }: Store, known: KnownSecrets): Approvals {
  const masked = (thread: string, value: JsonObject): JsonObject =>
    known.redactor(thread).json(value);
  return {
    ...approvals,
    ask: (request) =>
      approvals.ask({
        ...request,
        binding: masked(request.thread, request.binding),
        shown: masked(request.thread, request.shown),
      }),
    find: (thread, binding) => approvals.find(thread, masked(thread, binding)),
    use(id, binding) {
      const asked = approvals.get(id);
      return asked.ok ? approvals.use(id, masked(asked.output.thread, binding)) : asked;
    },
  };
}

const MAX_NESTING = 200;
const asBytes = (value: JsonObject): Uint8Array => Buffer.from(JSON.stringify(value));
const asJson = (bytes: Uint8Array): Outcome<JsonObject> =>
  parseJson(Buffer.from(bytes).toString(), MAX_NESTING) as Outcome<JsonObject>;

/** Artifacts of threads are JSON, and no different from what stands in a journal. */
function sealArtifacts({ artifacts }: Store, known: KnownSecrets, seal: Seal): Artifacts {
  return {
    put(thread, bytes) {
      const value = asJson(bytes);
      if (!value.ok) return value;
      known.learn(thread, eventSecrets('tool_result', value.output));
      const hidden = seal.hide(thread, value.output);
      return hidden.ok ? artifacts.put(thread, asBytes(hidden.output)) : hidden;
    },
    get(thread, hash) {
      const bytes = artifacts.get(thread, hash);
      const value = bytes.ok ? asJson(bytes.output) : bytes;
      if (!value.ok) return value;
      const shown = seal.reveal(thread, value.output);
      return shown.ok ? ok(asBytes(shown.output)) : shown;
    },
  };
}

function hideChange(seal: Seal, thread: string, change: Change | undefined) {
  if (change?.result === undefined) return ok(change);
  const result = seal.hide(thread, change.result);
  return result.ok ? ok({ ...change, result: result.output }) : result;
}

type Writing = Pick<Store, 'createThread' | 'append'>;

function sealWriting(store: Store, known: KnownSecrets, seal: Seal): Writing {
  return {
    createThread(thread, first = {}) {
      if (thread.parent !== undefined) known.inherit(thread.id, thread.parent);
      known.learn(thread.id, inputSecrets(thread.inputs));
      const events = seal.hideEvents(thread.id, first.events ?? []);
      if (!events.ok) return events;
      const inputs = seal.hide(thread.id, thread.inputs);
      if (!inputs.ok) return inputs;
      const made = store.createThread(
        { ...thread, inputs: inputs.output },
        { ...first, events: events.output },
      );
      return made.ok ? ok({ ...made.output, inputs: thread.inputs }) : made;
    },
    append(thread, expectedSeq, epoch, events, change) {
      const hidden = seal.hideEvents(thread, events);
      if (!hidden.ok) return hidden;
      const changed = hideChange(seal, thread, change);
      if (!changed.ok) return changed;
      return store.append(thread, expectedSeq, epoch, hidden.output, changed.output);
    },
  };
}

type Reading = Pick<Store, 'claim' | 'thread' | 'read' | 'append' | 'release'>;

/** Between the claim and the first append a thread is being rebuilt: then its secrets are shown. */
function sealReading(store: Store, known: KnownSecrets, seal: Seal, { append }: Writing): Reading {
  const rebuilding = new Set<string>();
  return {
    claim(thread, ...how) {
      const lease = store.claim(thread, ...how);
      if (lease.ok) rebuilding.add(thread);
      return lease;
    },
    thread(id) {
      const row = store.thread(id);
      if (!row.ok || !rebuilding.has(id)) return row;
      const inputs = seal.reveal(id, row.output.inputs);
      if (!inputs.ok) return inputs;
      known.learn(id, inputSecrets(inputs.output));
      return ok({ ...row.output, inputs: inputs.output });
    },
    read(thread, after, limit) {
      const events = store.read(thread, after, limit);
      const isShown = events.ok && rebuilding.has(thread);
      return isShown ? seal.revealEvents(thread, events.output) : events;
    },
    append(thread, ...what) {
      rebuilding.delete(thread);
      return append(thread, ...what);
    },
    release(thread, epoch) {
      rebuilding.delete(thread);
      seal.letGo(thread);
      return store.release(thread, epoch);
    },
  };
}

export function sealStore(ports: SealPorts): SealedStore {
  const { store, known } = ports;
  const seal = createSeal(ports);
  const writing = sealWriting(store, known, seal);
  return {
    store: {
      ...store,
      ...writing,
      ...sealReading(store, known, seal, writing),
      approvals: sealApprovals(store, known),
      artifacts: sealArtifacts(store, known, seal),
    },
    history(thread) {
      const events = readStored(store, thread);
      return events.ok ? seal.revealEvents(thread, events.output) : events;
    },
  };
}
