// The registry as the harness sees it: what it writes is sealed on the way in. INVARIANT: no known
// secret reaches the file as readable text, and only whoever takes a thread up again sees it restored;
// another thread that reads the journal sees references.
import { type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import {
  type Change,
  createVault,
  type NewEvent,
  type Store,
  type StoredEvent,
  type Vault,
} from '../store/index.ts';
import { eventSecrets, inputSecrets, type KnownSecrets } from './secrets.ts';

export interface SealPorts {
  store: Store;
  known: KnownSecrets;
  /** From the user's folder. */
  key(): Outcome<Uint8Array>;
}

export interface SealedStore {
  store: Store;
  /** A journal with its secrets in place: for replay. */
  history(thread: string): Outcome<StoredEvent[]>;
}

export function sealStore({ store, known, key }: SealPorts): SealedStore {
  const vaults = new Map<string, Vault>();
  /** Between the claim and the first append: the thread is being rebuilt. */
  const rebuilding = new Set<string>();

  function vaultOf(thread: string): Outcome<Vault> {
    const before = vaults.get(thread);
    if (before) return ok(before);
    const secret = key();
    if (!secret.ok) return secret;
    const vault = createVault({ secrets: store.secrets, thread, key: secret.output });
    if (vault.ok) vaults.set(thread, vault.output);
    return vault;
  }
  function hide<T extends Json>(thread: string, value: T): Outcome<T> {
    const vault = vaultOf(thread);
    if (!vault.ok) return vault;
    return vault.output.hide(value, known.redactor(thread)) as Outcome<T>;
  }
  function reveal<T extends Json>(thread: string, value: T): Outcome<T> {
    const vault = vaultOf(thread);
    return vault.ok ? (vault.output.reveal(value) as Outcome<T>) : vault;
  }
  function hideEvents(thread: string, events: readonly NewEvent[]): Outcome<NewEvent[]> {
    for (const { type, data } of events) known.learn(thread, eventSecrets(type, data));
    const hidden: NewEvent[] = [];
    for (const event of events) {
      const data = hide<JsonObject>(thread, event.data);
      if (!data.ok) return data;
      hidden.push({ ...event, data: data.output });
    }
    return ok(hidden);
  }
  function revealEvents(thread: string, events: readonly StoredEvent[]): Outcome<StoredEvent[]> {
    const vault = vaultOf(thread);
    if (!vault.ok) return vault;
    // Also what came from a parent, or from tools that are no longer there.
    known.learn(thread, vault.output.texts());
    const shown: StoredEvent[] = [];
    for (const event of events) {
      const data = reveal<JsonObject>(thread, event.data);
      if (!data.ok) return data;
      known.learn(thread, eventSecrets(event.type, data.output));
      shown.push({ ...event, data: data.output });
    }
    return ok(shown);
  }
  function hideChange(thread: string, change: Change | undefined): Outcome<Change | undefined> {
    if (change?.result === undefined) return ok(change);
    const result = hide(thread, change.result);
    return result.ok ? ok({ ...change, result: result.output }) : result;
  }
  function letGo(thread: string): void {
    vaults.delete(thread);
    rebuilding.delete(thread);
    known.forget(thread);
  }
  function readAll(thread: string): Outcome<StoredEvent[]> {
    const all: StoredEvent[] = [];
    for (;;) {
      const page = store.read(thread, all.at(-1)?.seq ?? 0);
      if (!page.ok) return page;
      if (page.output.length === 0) return ok(all);
      all.push(...page.output);
    }
  }

  /** People see questions: without secrets, and bound to them as they are shown. */
  const masked = (thread: string, value: JsonObject): JsonObject =>
    known.redactor(thread).json(value) as JsonObject;
  const { approvals } = store;

  const sealed: Store = {
    ...store,
    approvals: {
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
    },
    createThread(thread, first = {}) {
      if (thread.parent !== undefined) known.inherit(thread.id, thread.parent);
      known.learn(thread.id, inputSecrets(thread.inputs));
      const events = hideEvents(thread.id, first.events ?? []);
      if (!events.ok) return events;
      const inputs = hide(thread.id, thread.inputs);
      if (!inputs.ok) return inputs;
      const made = store.createThread(
        { ...thread, inputs: inputs.output },
        { ...first, events: events.output },
      );
      return made.ok ? ok({ ...made.output, inputs: thread.inputs }) : made;
    },
    claim(thread, owner, ttlMs) {
      const lease = store.claim(thread, owner, ttlMs);
      if (lease.ok) rebuilding.add(thread);
      return lease;
    },
    thread(id) {
      const row = store.thread(id);
      if (!row.ok || !rebuilding.has(id)) return row;
      const inputs = reveal(id, row.output.inputs);
      if (!inputs.ok) return inputs;
      known.learn(id, inputSecrets(inputs.output));
      return ok({ ...row.output, inputs: inputs.output });
    },
    read(thread, after, limit) {
      const events = store.read(thread, after, limit);
      return events.ok && rebuilding.has(thread) ? revealEvents(thread, events.output) : events;
    },
    append(thread, expectedSeq, epoch, events, change) {
      rebuilding.delete(thread);
      const hidden = hideEvents(thread, events);
      if (!hidden.ok) return hidden;
      const changed = hideChange(thread, change);
      if (!changed.ok) return changed;
      return store.append(thread, expectedSeq, epoch, hidden.output, changed.output);
    },
    release(thread, epoch) {
      letGo(thread);
      return store.release(thread, epoch);
    },
  };
  return {
    store: sealed,
    history(thread) {
      const events = readAll(thread);
      return events.ok ? revealEvents(thread, events.output) : events;
    },
  };
}
