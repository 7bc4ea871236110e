// What is known to be secret, taken out of values on their way into the registry and put back on the
// way out: one vault for each thread that is at work here.
import { type Json, type JsonObject, type Outcome, ok } from '../base/index.ts';
import {
  createVault,
  type NewEvent,
  type Store,
  type StoredEvent,
  type Vault,
} from '../store/index.ts';
import { eventSecrets, type KnownSecrets } from './secrets.ts';

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
