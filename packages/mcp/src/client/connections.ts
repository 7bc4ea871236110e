// Keeps at most one usable connection per endpoint. The first caller opens it and parallel callers
// share it. A failed endpoint is retried with a growing backoff. A worn connection is replaced for
// new callers and closed after its last call.
import { hash } from 'node:crypto';
import { canonicalJson, fail, type Outcome, ok } from '@kernmantle/core/base';
import { McpConnection } from './connection.ts';
import { connectionFailed, redacted, secretsOf } from './failures.ts';
import { openLine } from './lines.ts';
import { pauseAfter, waitedFor } from './pace.ts';
import type { Endpoint, PoolCall } from './pool.ts';
import type { McpPoolPorts, PoolLimits } from './ports.ts';

/** State of one endpoint, with or without a connection. */
interface EndpointState {
  readonly endpoint: Endpoint;
  current?: McpConnection | undefined;
  opening?: Promise<Outcome<McpConnection>> | undefined;
  failures: number;
  /** Time of the next attempt by the monotonic clock. */
  notBefore: number;
  /** True if the process ended during the probe for the newer revision. */
  isLegacy: boolean;
}

interface Use {
  count: number;
  idle?: NodeJS.Timeout | undefined;
}

const keys = new WeakMap<Endpoint, string>();

/** The key is cached, because one call uses an endpoint several times. */
function keyOf(endpoint: Endpoint): string {
  const existing = keys.get(endpoint);
  if (existing !== undefined) return existing;
  const key = hash('sha256', canonicalJson(JSON.parse(JSON.stringify(endpoint))));
  keys.set(endpoint, key);
  return key;
}

/** Opens connections, detects when they break and increases the backoff after each failure. */
function createOpener(
  ports: McpPoolPorts,
  limits: PoolLimits,
  alive: Set<McpConnection>,
  /** Called for every opened connection, even if no caller waits for it any longer. */
  onOpened: (place: EndpointState, connection: McpConnection) => void,
) {
  const { clock } = ports;

  function failed(place: EndpointState): void {
    place.failures++;
    place.notBefore = clock.monotonic() + pauseAfter(place.failures);
  }

  async function attempt(
    place: EndpointState,
    hasEnded: () => void = () => undefined,
    isAgain = false,
  ): Promise<Outcome<McpConnection>> {
    const { endpoint } = place;
    const line = await openLine(endpoint, ports, limits.maxBytes);
    if (!line.ok) return line;
    const connection = new McpConnection(endpoint, line.output, ports, limits);
    alive.add(connection);
    const opened = await connection.open(place.isLegacy, () => {
      if (place.current !== connection) return;
      place.current = undefined;
      // The pool removes `current` before it closes a connection, so this connection broke.
      failed(place);
      void connection.close().then(() => alive.delete(connection));
    });
    if (opened.ok && connection.isOpen) return ok(connection);
    if (line.output.ended() !== undefined) hasEnded();
    await connection.close();
    alive.delete(connection);
    const loggedIn = isAgain ? ok(false) : await line.output.loggedIn();
    if (!loggedIn.ok) return loggedIn;
    if (loggedIn.output) return await attempt(place, hasEnded, true);
    return opened.ok
      ? connectionFailed(endpoint, {
          cause: 'it closed immediately',
          retryable: true,
          remediation: 'try again',
        })
      : opened;
  }

  async function open(place: EndpointState): Promise<Outcome<McpConnection>> {
    const { endpoint } = place;
    let isEnded = false;
    let opened = await attempt(place, () => {
      isEnded = true;
    });
    if (isEnded && !place.isLegacy) {
      // Some servers end when they receive an unknown request before initialization.
      place.isLegacy = true;
      opened = await attempt(place);
      if (!opened.ok) place.isLegacy = false;
    }
    if (opened.ok) {
      place.current = opened.output;
      onOpened(place, opened.output);
      return opened;
    }
    if (opened.error.detail['retryable'] === true) failed(place);
    return redacted(opened, secretsOf(endpoint));
  }

  return (place: EndpointState): Promise<Outcome<McpConnection>> => {
    const { endpoint, notBefore, failures } = place;
    const pause = Math.ceil(notBefore - clock.monotonic());
    if (pause > 0 && !place.opening) {
      const refusal = connectionFailed(endpoint, {
        cause: `it failed ${failures} times in a row and is in backoff`,
        retryable: true,
        remediation: `try again in ${(pause / 1000).toFixed(1)} s`,
        more: { retry_after_ms: pause, sent: false },
      });
      return Promise.resolve(refusal);
    }
    place.opening ??= open(place).finally(() => {
      place.opening = undefined;
    });
    return place.opening;
  };
}

/** Above this number, endpoints without a connection are dropped. */
const MAX_PLACES = 256;

function createPlaces() {
  const places = new Map<string, EndpointState>();
  return {
    all: () => [...places.values()],
    at(endpoint: Endpoint): EndpointState {
      const key = keyOf(endpoint);
      const existing = places.get(key);
      if (existing) return existing;
      for (const [old, { current, opening }] of places) {
        if (places.size < MAX_PLACES) break;
        if (!current && !opening) places.delete(old);
      }
      const state: EndpointState = { endpoint, failures: 0, notBefore: 0, isLegacy: false };
      places.set(key, state);
      return state;
    },
  };
}

/** Counts the users of each connection, to close idle ones. */
function createUses(idleMs: number, alive: Set<McpConnection>) {
  const uses = new WeakMap<McpConnection, Use>();

  async function discard(connection: McpConnection): Promise<void> {
    await connection.close();
    alive.delete(connection);
  }

  /** Removes the connection for new callers. It closes after its last user. */
  function retire(place: EndpointState, connection: McpConnection): void {
    if (place.current === connection) place.current = undefined;
    if ((uses.get(connection)?.count ?? 0) === 0) void discard(connection);
  }

  return {
    discard,
    retire,
    begin(connection: McpConnection): void {
      const use = uses.get(connection) ?? { count: 0 };
      uses.set(connection, use);
      clearTimeout(use.idle);
      if (use.count++ === 0) connection.hold(true);
    },
    end(place: EndpointState, connection: McpConnection): void {
      const use = uses.get(connection);
      if (!use || --use.count > 0) return;
      connection.hold(false);
      if (place.current !== connection || connection.isWorn) return retire(place, connection);
      use.idle = setTimeout(() => retire(place, connection), idleMs);
      use.idle.unref();
    },
  };
}

export function createConnections(ports: McpPoolPorts, limits: PoolLimits) {
  const { clock } = ports;
  const places = createPlaces();
  const alive = new Set<McpConnection>();
  const { begin, end, retire, discard } = createUses(limits.idleMs, alive);
  const open = createOpener(ports, limits, alive, (place, connection) => {
    begin(connection);
    end(place, connection);
  });
  let isClosed = false;

  /** True if the connection was started under rules that have changed since. */
  const isOutdated = (connection: McpConnection): boolean =>
    connection.line.process !== undefined && connection.line.verify !== ports.verify();

  async function connected(place: EndpointState, call: PoolCall): Promise<Outcome<McpConnection>> {
    if (isClosed) return fail('cancelled', 'the connections are closing', { sent: false });
    const { current } = place;
    if (current?.isOpen && !current.isWorn && !isOutdated(current)) return ok(current);
    if (current) retire(place, current);
    const opened = await waitedFor(open(place), call);
    if (opened.ok && isClosed) await discard(opened.output);
    return opened;
  }

  return {
    /** Calls `work` with the remaining time and a connection that stays open until `work` ends. */
    async use<T>(
      endpoint: Endpoint,
      call: PoolCall,
      work: (connection: McpConnection, call: PoolCall) => Promise<Outcome<T>>,
    ): Promise<Outcome<T>> {
      const place = places.at(endpoint);
      const startedAt = clock.monotonic();
      const got = await connected(place, call);
      if (!got.ok) return redacted(got, call.secrets);
      const connection = got.output;
      begin(connection);
      try {
        const remaining = Math.max(1, call.timeoutMs - (clock.monotonic() - startedAt));
        const result = await work(connection, { ...call, timeoutMs: remaining });
        if (result.ok) place.failures = 0;
        return result;
      } finally {
        end(place, connection);
      }
    },
    async close(): Promise<void> {
      isClosed = true;
      const opening = places.all().flatMap((place) => place.opening ?? []);
      await Promise.all([...alive].map(discard));
      await Promise.all(opening);
      await Promise.all([...alive].map(discard));
    },
  };
}
