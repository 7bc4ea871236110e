// Wraps the store for the harness: known secrets are replaced in values that are written and restored in values that
// are read, with one vault for each thread that has a secret. INVARIANT: a known secret never reaches the file as
// readable text. Only the owner of the lease gets it restored; another thread that reads the journal gets references.
import { hash } from 'node:crypto';
import {
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  plainText,
} from '../../base/index.ts';
import { readStored } from '../../journal/index.ts';
import {
  type Answer,
  type Artifacts,
  type Commit,
  type Committed,
  createVault,
  type LeasedThread,
  type NewEvent,
  type NewThread,
  type Sealed,
  type Store,
  type StoredEvent,
  type Vault,
} from '../../store/index.ts';
import { eventSecrets, inputSecrets, type KnownSecrets } from './known-secrets.ts';

interface SealPorts {
  store: Store;
  known: KnownSecrets;
  /** Returns the key of the vaults, from the user's folder. */
  key(): Outcome<Uint8Array>;
}

/** The vaults of the threads that run here. They change texts and never the shape of a value. */
class Vaults {
  readonly #ports: SealPorts;
  /** Vaults by thread. `undefined`: the thread has no secret so far. */
  readonly #vaults = new Map<string, Vault | undefined>();

  constructor(ports: SealPorts) {
    this.#ports = ports;
  }

  /** Adds a thread that is about to be created. */
  add(thread: string): void {
    this.#vaults.set(thread, undefined);
  }

  has(thread: string): boolean {
    return this.#vaults.has(thread);
  }

  /** Reads the vault of a thread, unless this process has read it already. */
  async load(thread: string): Answer<null> {
    if (this.#vaults.has(thread)) return ok(null);
    const sealed = await this.#ports.store.secrets(thread);
    if (!sealed.ok) return sealed;
    // Another call can have been faster. A thread has only one vault.
    if (this.#vaults.has(thread)) return ok(null);
    if (sealed.output.length === 0) this.add(thread);
    const vault = sealed.output.length === 0 ? ok(null) : this.#open(thread, sealed.output);
    return vault.ok ? ok(null) : vault;
  }

  hide<T extends Json>(thread: string, value: T, text?: string): Outcome<T> {
    const { known } = this.#ports;
    const before = this.#vaults.get(thread);
    // Without a vault no reference was ever shown, so none can be imitated.
    if (!before && known.isClean(thread, value, text)) return ok(value);
    const vault = before ? ok(before) : this.#open(thread, []);
    return vault.ok ? (vault.output.hide(value, known.redactor(thread)) as Outcome<T>) : vault;
  }

  /** Hides secrets in a stored result. A file stays as it is. */
  hideArtifact(thread: string, bytes: Uint8Array): Outcome<Uint8Array> {
    const value = isObjectText(bytes) ? asJson(bytes) : undefined;
    if (!value) return ok(bytes);
    if (!value.ok) return value;
    this.#ports.known.learn(thread, eventSecrets('tool_result', value.output));
    const hidden = this.hide(thread, value.output);
    return hidden.ok ? ok(asBytes(hidden.output)) : hidden;
  }

  /** Hides secrets, and adds those that the events mark. Returns the same list if nothing is hidden. */
  hideEvents(thread: string, events: readonly NewEvent[]): Outcome<readonly NewEvent[]> {
    const { known } = this.#ports;
    for (const { type, data } of events) {
      const news = eventSecrets(type, data);
      if (news.length > 0) known.learn(thread, news);
    }
    let isClean = !this.#vaults.get(thread);
    for (const { data, text } of events) isClean &&= known.isClean(thread, data, text);
    if (isClean) return ok(events);
    const hidden: NewEvent[] = [];
    for (const { text, ...event } of events) {
      const data = this.hide(thread, event.data, text);
      if (!data.ok) return data;
      const isSame = data.output === event.data && text !== undefined;
      hidden.push({ ...event, data: data.output, ...(isSame && { text }) });
    }
    return ok(hidden);
  }

  reveal<T extends Json>(thread: string, value: T): Outcome<T> {
    const vault = this.#vaults.get(thread);
    return vault ? (vault.reveal(value) as Outcome<T>) : ok(value);
  }

  revealEvents(thread: string, events: readonly StoredEvent[]): Outcome<StoredEvent[]> {
    const { known } = this.#ports;
    // The vault also has secrets of a parent, and of tools that no longer exist.
    known.learn(thread, this.#vaults.get(thread)?.texts() ?? []);
    const revealed: StoredEvent[] = [];
    for (const event of events) {
      const data = this.reveal(thread, event.data);
      if (!data.ok) return data;
      known.learn(thread, eventSecrets(event.type, data.output));
      revealed.push({ ...event, data: data.output });
    }
    return ok(revealed);
  }

  unkept(thread: string): readonly Sealed[] {
    return this.#vaults.get(thread)?.unkept() ?? [];
  }

  kept(thread: string, secrets: readonly Sealed[] = []): void {
    this.#vaults.get(thread)?.kept(secrets);
  }

  letGo(thread: string): void {
    this.#vaults.delete(thread);
  }

  #open(thread: string, sealed: readonly Sealed[]): Outcome<Vault> {
    const key = this.#ports.key();
    if (!key.ok) return key;
    const vault = createVault({ sealed, thread, key: key.output });
    if (vault.ok) this.#vaults.set(thread, vault.output);
    return vault;
  }
}

const ARTIFACT = /sha256(?::|":")([0-9a-f]{64})/g;
/** Returns the names of artifacts in a text. Results name them, and so do calls that read them. */
export const artifactsIn = (text: string): readonly string[] =>
  Array.from(text.matchAll(ARTIFACT), ([, hash]) => `sha256:${hash}`);
/** False for a file. Known secrets are not found inside of images and PDF streams. */
const isObjectText = (bytes: Uint8Array): boolean => bytes[0] === '{'.charCodeAt(0);

const MAX_NESTING = 200;
const asBytes = (value: JsonObject): Uint8Array => Buffer.from(JSON.stringify(value));
const asJson = (bytes: Uint8Array): Outcome<JsonObject> =>
  parseJson(Buffer.from(bytes).toString(), MAX_NESTING) as Outcome<JsonObject>;

/** Returns the functions of the store that create threads and commit, with hidden secrets. */
function sealThreads({ store, known }: SealPorts, vaults: Vaults) {
  function seal(thread: NewThread, parent?: string): Outcome<NewThread> {
    const { id } = thread;
    if (parent !== undefined) known.inherit(id, parent);
    known.learn(id, inputSecrets(thread.inputs));
    if (!vaults.has(id)) vaults.add(id);
    const events = vaults.hideEvents(id, thread.events);
    if (!events.ok) return events;
    const inputs = vaults.hide(id, thread.inputs);
    if (!inputs.ok) return inputs;
    const secrets = vaults.unkept(id);
    return ok({ ...thread, inputs: inputs.output, events: events.output, secrets });
  }
  /** Returns a created thread with its original inputs. Its sealed secrets are in the store now. */
  function asCreated(leased: LeasedThread, { inputs }: NewThread, sealed: NewThread): LeasedThread {
    vaults.kept(leased.thread, sealed.secrets);
    return { ...leased, row: { ...leased.row, inputs } };
  }
  /** Hides the secrets of artifacts, and gives their new names to the events. A fork seals those of its source anew. */
  function sealArtifacts(
    id: string,
    events: readonly NewEvent[],
    artifacts: Artifacts,
  ): Outcome<{ events: readonly NewEvent[]; sealed: Artifacts }> {
    const names = new Map<string, string>();
    const sealed = new Map<string, Uint8Array>();
    for (const [name, bytes] of artifacts) {
      const hidden = vaults.hideArtifact(id, bytes);
      if (!hidden.ok) return hidden;
      const now = `sha256:${hash('sha256', hidden.output)}`;
      sealed.set(now, hidden.output);
      if (now !== name) names.set(name, now);
    }
    if (names.size === 0) return ok({ events, sealed });
    const renamed = events.map((event) => {
      const before = event.text ?? JSON.stringify(event.data);
      const text = before.replace(ARTIFACT, (name) => names.get(name) ?? name);
      const data = text === before ? undefined : asJson(Buffer.from(text));
      return data?.ok ? { ...event, text, data: data.output } : event;
    });
    return ok({ events: renamed, sealed });
  }
  const createThread: Store['createThread'] = async (thread, artifacts = new Map()) => {
    const { id } = thread;
    const fork = thread.events.findLast(({ type }) => type === 'fork');
    // The caller has read the source, so its secrets are known.
    if (fork) known.inherit(id, plainText(fork.data.from));
    vaults.add(id);
    const named = sealArtifacts(id, thread.events, artifacts);
    if (!named.ok) return named;
    const { events, sealed: bytes } = named.output;
    const sealed = seal({ ...thread, events });
    if (!sealed.ok) return sealed;
    const created = await store.createThread(sealed.output, bytes);
    if (created.ok) return ok(asCreated(created.output, thread, sealed.output));
    vaults.letGo(id);
    return created;
  };
  const fire: Store['fire'] = async (change) => {
    const { thread } = change;
    if (!thread) return await store.fire(change);
    const sealed = seal(thread);
    if (!sealed.ok) return sealed;
    const fired = await store.fire({ ...change, thread: sealed.output });
    if (!fired.ok) vaults.letGo(thread.id);
    const { leased } = fired.ok ? fired.output : {};
    return leased ? ok({ leased: asCreated(leased, thread, sealed.output) }) : fired;
  };
  async function commitSealed(
    thread: string,
    { children: threads = [], ask, ...commit }: Commit,
    hidden?: Outcome<readonly NewEvent[]>,
  ): Answer<Committed> {
    const loaded = await vaults.load(thread);
    if (!loaded.ok) return loaded;
    const events = hidden ?? vaults.hideEvents(thread, commit.events);
    if (!events.ok) return events;
    const [first = commit.events[0], ...rest] = events.output;
    const result = commit.result === undefined ? ok(undefined) : vaults.hide(thread, commit.result);
    if (!result.ok) return result;
    const children: NewThread[] = [];
    for (const child of threads) {
      const sealed = seal(child, thread);
      if (!sealed.ok) return sealed;
      children.push(sealed.output);
    }
    const secrets = vaults.unkept(thread);
    // People read approval requests, so these are masked, and bound to their masked form.
    const masked = (value: JsonObject): JsonObject => known.redactor(thread).json(value);
    const requests = ask?.map((one) => ({
      ...one,
      binding: masked(one.binding),
      shown: masked(one.shown),
    }));
    const committed = await store.commit(thread, {
      ...commit,
      events: [first, ...rest],
      ...(result.output === undefined ? {} : { result: result.output }),
      ...(children.length > 0 && { children }),
      ...(requests && { ask: requests }),
      ...(secrets.length > 0 && { secrets }),
    });
    if (!committed.ok) {
      for (const { id } of children) vaults.letGo(id);
      return committed;
    }
    vaults.kept(thread, secrets);
    const leases = committed.output.children.map((child, at) => {
      const [was, is] = [threads[at], children[at]];
      return was && is ? asCreated(child, was, is) : child;
    });
    return ok({ ...committed.output, children: leases });
  }
  /** Most commits contain only events without secrets. They are passed on unchanged. */
  const commit: Store['commit'] = (thread, whole) => {
    const isPlain = !whole.children && !whole.ask && whole.result === undefined;
    const events =
      isPlain && vaults.has(thread) ? vaults.hideEvents(thread, whole.events) : undefined;
    if (events?.ok && events.output === whole.events) return store.commit(thread, whole);
    return commitSealed(thread, whole, events);
  };
  return { createThread, fire, commit };
}

/** Returns the functions of the store that read inputs and artifacts, with restored secrets. An artifact is JSON or a file. */
function sealReads(
  { store, known }: SealPorts,
  vaults: Vaults,
): Pick<Store, 'claim' | 'putArtifact' | 'artifact'> & {
  opened(leased: LeasedThread): Answer<LeasedThread>;
} {
  async function opened(leased: LeasedThread): Answer<LeasedThread> {
    const { thread } = leased;
    const loaded = await vaults.load(thread);
    const inputs = loaded.ok ? vaults.reveal(thread, leased.row.inputs) : loaded;
    if (!inputs.ok) return inputs;
    known.learn(thread, inputSecrets(inputs.output));
    return ok({ ...leased, row: { ...leased.row, inputs: inputs.output } });
  }
  return {
    opened,
    /** Claims a thread and restores the secrets in its inputs. */
    async claim(thread, owner, how) {
      const claimed = await store.claim(thread, owner, how);
      const restored = claimed.ok ? await opened(claimed.output) : claimed;
      if (claimed.ok && !restored.ok) await store.release(claimed.output);
      return restored;
    },
    async putArtifact(thread, bytes) {
      const loaded = await vaults.load(thread);
      const hidden = loaded.ok ? vaults.hideArtifact(thread, bytes) : loaded;
      if (!hidden.ok) return hidden;
      const secrets = vaults.unkept(thread);
      const put = await store.putArtifact(thread, hidden.output, secrets);
      if (put.ok) vaults.kept(thread, secrets);
      return put;
    },
    async artifact(thread, hash) {
      const bytes = await store.artifact(thread, hash);
      if (bytes.ok && !isObjectText(bytes.output)) return bytes;
      const value = bytes.ok ? asJson(bytes.output) : bytes;
      if (!value.ok) return value;
      const loaded = await vaults.load(thread);
      const revealed = loaded.ok ? vaults.reveal(thread, value.output) : loaded;
      return revealed.ok ? ok(asBytes(revealed.output)) : revealed;
    },
  };
}

export function sealStore(ports: SealPorts) {
  const { store, known } = ports;
  const vaults = new Vaults(ports);
  const { opened, ...reads } = sealReads(ports, vaults);
  const sealed: Store = {
    ...store,
    ...sealThreads(ports, vaults),
    ...reads,
    restate: (request) =>
      store.restate(
        request.thread === undefined
          ? request
          : { ...request, shown: known.redactor(request.thread).json(request.shown) },
      ),
    approvals: (filter) =>
      store.approvals(
        filter.binding && filter.thread !== undefined
          ? { ...filter, binding: known.redactor(filter.thread).json(filter.binding) }
          : filter,
      ),
  };
  return {
    store: sealed,
    /** Restores the secrets in the inputs of a thread that was taken from the queue. */
    opened,
    /** Returns a journal with restored secrets, for the owner of the lease and for a replay. */
    async history(thread: string, most?: number): Answer<StoredEvent[]> {
      const events = await readStored(store, thread, undefined, {
        ...(most !== undefined && { most }),
      });
      if (!events.ok) return events;
      const loaded = await vaults.load(thread);
      return loaded.ok ? vaults.revealEvents(thread, events.output) : loaded;
    },
    /** Drops the vault of a thread that no longer runs here. */
    letGo(thread: string): void {
      vaults.letGo(thread);
      known.forget(thread);
    },
  };
}
