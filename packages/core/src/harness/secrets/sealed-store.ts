// The registry as the harness sees it: what is known to be secret is taken out of values on their way in
// and put back on the way out, with one vault for each thread that has a secret. INVARIANT: no known
// secret reaches the file as readable text, and only whoever takes a thread up again sees it restored;
// another thread that reads the journal sees references.
import { type Json, type JsonObject, type Outcome, ok, parseJson } from '../../base/index.ts';
import { readStored } from '../../journal/index.ts';
import {
  type Answer,
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
  /** From the user's folder. */
  key(): Outcome<Uint8Array>;
}

/** The vaults of the threads at work here. Texts change on the way, shapes do not. */
class Vaults {
  readonly #ports: SealPorts;
  /** Undefined: the thread has no secret so far. */
  readonly #vaults = new Map<string, Vault | undefined>();

  constructor(ports: SealPorts) {
    this.#ports = ports;
  }

  /** Of a thread that is about to be born. */
  add(thread: string): void {
    this.#vaults.set(thread, undefined);
  }

  has(thread: string): boolean {
    return this.#vaults.has(thread);
  }

  /** What this process has not held before is read. */
  async load(thread: string): Answer<null> {
    if (this.#vaults.has(thread)) return ok(null);
    const sealed = await this.#ports.store.secrets(thread);
    if (!sealed.ok) return sealed;
    // Somebody may have been faster: there is one vault a thread.
    if (this.#vaults.has(thread)) return ok(null);
    if (sealed.output.length === 0) this.add(thread);
    const vault = sealed.output.length === 0 ? ok(null) : this.#open(thread, sealed.output);
    return vault.ok ? ok(null) : vault;
  }

  hide<T extends Json>(thread: string, value: T, text?: string): Outcome<T> {
    const { known } = this.#ports;
    const before = this.#vaults.get(thread);
    // Without a vault nobody has seen a reference, so none can be imitated.
    if (!before && known.isClean(thread, value, text)) return ok(value);
    const vault = before ? ok(before) : this.#open(thread, []);
    return vault.ok ? (vault.output.hide(value, known.redactor(thread)) as Outcome<T>) : vault;
  }

  /** What they make known as secret counts from here on. The same list when nothing is hidden. */
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
    // Also what came from a parent, or from tools that are no longer there.
    known.learn(thread, this.#vaults.get(thread)?.texts() ?? []);
    const shown: StoredEvent[] = [];
    for (const event of events) {
      const data = this.reveal(thread, event.data);
      if (!data.ok) return data;
      known.learn(thread, eventSecrets(event.type, data.output));
      shown.push({ ...event, data: data.output });
    }
    return ok(shown);
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

const MAX_NESTING = 200;
const asBytes = (value: JsonObject): Uint8Array => Buffer.from(JSON.stringify(value));
const asJson = (bytes: Uint8Array): Outcome<JsonObject> =>
  parseJson(Buffer.from(bytes).toString(), MAX_NESTING) as Outcome<JsonObject>;

/** Threads that are going to be, and their first events. */
function sealThreads({ store, known }: SealPorts, vaults: Vaults) {
  function seal(thread: NewThread, parent?: string): Outcome<NewThread> {
    const { id } = thread;
    if (parent !== undefined) known.inherit(id, parent);
    known.learn(id, inputSecrets(thread.inputs));
    vaults.add(id);
    const events = vaults.hideEvents(id, thread.events);
    if (!events.ok) return events;
    const inputs = vaults.hide(id, thread.inputs);
    if (!inputs.ok) return inputs;
    const secrets = vaults.unkept(id);
    return ok({ ...thread, inputs: inputs.output, events: events.output, secrets });
  }
  /** Born: what was sealed for it is kept, and whoever holds it sees what it was given. */
  function born(held: LeasedThread, { inputs }: NewThread, sealed: NewThread): LeasedThread {
    vaults.kept(held.thread, sealed.secrets);
    return { ...held, row: { ...held.row, inputs } };
  }
  const createThread: Store['createThread'] = async (thread) => {
    const sealed = seal(thread);
    if (!sealed.ok) return sealed;
    const held = await store.createThread(sealed.output);
    if (held.ok) return ok(born(held.output, thread, sealed.output));
    vaults.letGo(thread.id);
    return held;
  };
  async function commitSealed(
    thread: string,
    { children: given = [], ask, ...commit }: Commit,
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
    for (const child of given) {
      const sealed = seal(child, thread);
      if (!sealed.ok) return sealed;
      children.push(sealed.output);
    }
    const secrets = vaults.unkept(thread);
    // People see questions: without secrets, and bound to them as they are shown.
    const masked = (value: JsonObject): JsonObject => known.redactor(thread).json(value);
    const shown = ask?.map((one) => ({
      ...one,
      binding: masked(one.binding),
      shown: masked(one.shown),
    }));
    const done = await store.commit(thread, {
      ...commit,
      events: [first, ...rest],
      ...(result.output === undefined ? {} : { result: result.output }),
      ...(children.length > 0 && { children }),
      ...(shown && { ask: shown }),
      ...(secrets.length > 0 && { secrets }),
    });
    if (!done.ok) {
      for (const { id } of children) vaults.letGo(id);
      return done;
    }
    vaults.kept(thread, secrets);
    const held = done.output.children.map((child, at) => {
      const [was, is] = [given[at], children[at]];
      return was && is ? born(child, was, is) : child;
    });
    return ok({ ...done.output, children: held });
  }
  /** Most carry events without a secret and nothing else that people read: those go on as they are. */
  const commit: Store['commit'] = (thread, whole) => {
    const isPlain = !whole.children && !whole.ask && whole.result === undefined;
    const events =
      isPlain && vaults.has(thread) ? vaults.hideEvents(thread, whole.events) : undefined;
    if (events?.ok && events.output === whole.events) return store.commit(thread, whole);
    return commitSealed(thread, whole, events);
  };
  return { createThread, commit };
}

/** Artifacts of threads are JSON, and no different from what stands in a journal; so are inputs. */
function sealReads(
  { store, known }: SealPorts,
  vaults: Vaults,
): Pick<Store, 'claim' | 'putArtifact' | 'artifact'> & {
  opened(held: LeasedThread): Answer<LeasedThread>;
} {
  async function opened(held: LeasedThread): Answer<LeasedThread> {
    const { thread } = held;
    const loaded = await vaults.load(thread);
    const inputs = loaded.ok ? vaults.reveal(thread, held.row.inputs) : loaded;
    if (!inputs.ok) return inputs;
    known.learn(thread, inputSecrets(inputs.output));
    return ok({ ...held, row: { ...held.row, inputs: inputs.output } });
  }
  return {
    opened,
    /** Whoever takes a thread up sees what it was given. */
    async claim(thread, owner, how) {
      const held = await store.claim(thread, owner, how);
      const seen = held.ok ? await opened(held.output) : held;
      if (held.ok && !seen.ok) await store.release(held.output);
      return seen;
    },
    async putArtifact(thread, bytes) {
      const value = asJson(bytes);
      if (!value.ok) return value;
      const loaded = await vaults.load(thread);
      if (!loaded.ok) return loaded;
      known.learn(thread, eventSecrets('tool_result', value.output));
      const hidden = vaults.hide(thread, value.output);
      if (!hidden.ok) return hidden;
      const secrets = vaults.unkept(thread);
      const put = await store.putArtifact(thread, asBytes(hidden.output), secrets);
      if (put.ok) vaults.kept(thread, secrets);
      return put;
    },
    async artifact(thread, hash) {
      const bytes = await store.artifact(thread, hash);
      const value = bytes.ok ? asJson(bytes.output) : bytes;
      if (!value.ok) return value;
      const loaded = await vaults.load(thread);
      const shown = loaded.ok ? vaults.reveal(thread, value.output) : loaded;
      return shown.ok ? ok(asBytes(shown.output)) : shown;
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
    restate: (asked) =>
      store.restate(
        asked.thread === undefined
          ? asked
          : { ...asked, shown: known.redactor(asked.thread).json(asked.shown) },
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
    /** What was taken as the file has it, with its secrets in place. */
    opened,
    /** A journal with its secrets in place: for whoever holds the thread, and for replay. */
    async history(thread: string): Answer<StoredEvent[]> {
      const events = await readStored(store, thread);
      if (!events.ok) return events;
      const loaded = await vaults.load(thread);
      return loaded.ok ? vaults.revealEvents(thread, events.output) : loaded;
    },
    /** This process is done with the thread. */
    letGo(thread: string): void {
      vaults.letGo(thread);
      known.forget(thread);
    },
  };
}
