// Implements the primitive `mcp`: calls tools of other servers over a pool of connections, which
// closes with the primitive.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  fail,
  type JsonObject,
  type Outcome,
  ok,
  packagePath,
  textAt,
} from '@kernmantle/core/base';
import { type Library, putSigned } from '@kernmantle/core/items';
import {
  createKeepOut,
  type Primitive,
  policyAuthority,
  type Verifier,
  verifierOf,
} from '@kernmantle/core/kernel';
import {
  closedPlaces,
  findAnswer,
  hostAndPort,
  hostGate,
  labelRecords,
  type OpenProject,
  ownKey,
  personAuditRow,
  processPorts,
  putQuestion,
  type RuntimeContext,
} from '@kernmantle/core/runtime';
import type { Store } from '@kernmantle/core/store';
import { createMcpPool } from '../client/create-pool.ts';
import type { McpPool } from '../client/pool.ts';
import type { SpanAround } from '../client/ports.ts';
import { createMcpPrimitive } from '../connector/primitive.ts';
import type { SyncPorts } from '../connector/sync.ts';
import { isTraced } from './mcp-host.ts';

/** True for addresses of signed connectors, which are granted like addresses in the policy. */
function isConnected(library: Library, own: string | undefined, place: string): boolean {
  return library.all('tool').some(({ tags, signature, tool }) => {
    if (!tags.includes('mcp_connector') || signature.state !== 'signed') return false;
    const url = textAt(tool?.config, 'mcp_url');
    return signature.key === own && URL.canParse(url) && hostAndPort(url) === place;
  });
}

const version = (): string =>
  textAt(JSON.parse(readFileSync(packagePath('package.json'), 'utf8')), 'version');

const spanned: SpanAround = async (name, attributes, work) => {
  if (!isTraced()) return await work({});
  const { inSpan } = await import('@kernmantle/core/harness').then(({ telemetry }) => telemetry());
  return await inSpan({ name, side: 'client', attributes }, work, (answer) =>
    answer.ok ? undefined : answer.error.code,
  );
};

/** Pseudo surface for the processes of servers: only rules for all surfaces apply to them. */
const SERVERS = 'mcp_servers';

/** Allows only what both verifiers allow. */
function bothVerify(one: Verifier, other: Verifier): Verifier {
  const verify: Verifier = (need) => {
    const firstCheck = one(need);
    return firstCheck.ok ? other(need) : firstCheck;
  };
  const [first, second] = [one.globs, other.globs];
  return first && second
    ? Object.assign(verify, { globs: () => [...first(), ...second()] })
    : verify;
}

/** Opens a pool. `caller` also limits the access of its servers. Absent: only policies limit it. */
function openPool({ open, library }: RuntimeContext, caller?: Verifier): McpPool {
  const { clock, project, home, policies } = open;
  const keepOut = createKeepOut(closedPlaces(open), clock);
  const isGranted = hostGate(open, library);
  const current = (): Verifier => {
    const { catalog } = library.capabilities();
    return verifierOf(keepOut(policyAuthority(policies.current().policy, SERVERS, catalog)));
  };
  const own = caller && bothVerify(current(), caller);
  return createMcpPool({
    clock,
    client: { name: 'kernmantle', version: version() },
    projectRoot: project,
    home,
    labels: labelRecords(open),
    process: () => processPorts(open),
    verify: () => own ?? current(),
    isHostAllowed(host, address, port) {
      if (isGranted(host, address, port)) return true;
      const keys = open.keys.list();
      const own = keys.ok ? keys.output.find(({ name }) => name === 'signing')?.id : undefined;
      return own !== undefined && isConnected(library, own, `${host}:${port}`);
    },
    namedFolders: () => [...policies.current().policy.folders],
    onSetAside(paths, folder) {
      const row = { surface: 'mcp', caller: '', subject: 'sandbox', operation: 'mcp:set_aside' };
      const reason = `an MCP server with write access created it; it was moved to ${folder}`;
      for (const target of paths) open.audit.write({ ...row, target, decision: 'denied', reason });
    },
    authorize: open.own.login,
    span: spanned,
  });
}

/** Signs a tool that a person approved and records it in the audit. */
function putTool(open: OpenProject, library: Library): SyncPorts['put'] {
  return (id, text, who) => {
    const place = library.write('tool', id, text, 'replace', { dryRun: true });
    if (!place.ok) return place;
    const key = ownKey(open);
    if (!key.ok) return key;
    const { file } = place.output;
    const row = personAuditRow({ who, channel: 'cli' }, 'sign', id);
    const recorded = open.audit.write({ ...row, decision: 'allowed' });
    if (!recorded.ok) return recorded;
    const put = putSigned(file, text, key.output, open.clock);
    library.noteChange();
    return put.ok ? ok({ file, text: put.output.text }) : put;
  };
}

/** Maximum pending requests per connector, so that a changing list cannot fill the queue. */
const MAX_WAITING = 3;

async function mayAsk(store: Store, { operation, project }: JsonObject): Promise<Outcome<null>> {
  const waiting = await store.approvals({ state: 'pending' });
  if (!waiting.ok) return waiting;
  const same = waiting.output.filter(
    ({ binding }) => binding.operation === operation && binding.project === project,
  );
  if (same.length < MAX_WAITING) return ok(null);
  const message = `${same.length} approval requests for this connector are pending`;
  return fail('quota_exceeded', message, {
    approval: same[0]?.id ?? '',
    retryable: false,
    hint: 'its server lists different tools each time; a person must sync it and answer',
  });
}

/** Returns the approval for exactly these files of the connector, for every caller. */
const approvalIn =
  (open: OpenProject): SyncPorts['approval'] =>
  async ({ connector, digest }, view, surface) => {
    const opened = await open.store?.();
    if (!opened?.ok) return opened ?? ok({ answer: 'pending', approval: '' });
    const store = opened.output;
    const binding: JsonObject = {
      operation: `tool:${connector}`,
      arguments: hash('sha256', digest),
      project: open.project,
    };
    const row = await findAnswer(store, binding, open.clock.now());
    if (!row.ok) return row;
    // A person at the command line can decide again after a refusal.
    const isOver = row.output?.state === 'denied' && surface === 'cli';
    const free = row.output || surface === 'cli' ? ok(null) : await mayAsk(store, binding);
    if (!free.ok) return free;
    const request: Outcome<{ id: string; state: string }> =
      row.output && !isOver ? ok(row.output) : await putQuestion(open, store, binding, view);
    if (!request.ok) return request;
    const { id, state } = request.output;
    if (state !== 'approved') {
      return ok({ answer: state === 'denied' ? 'denied' : 'pending', approval: id });
    }
    const used = await store.use(id, binding);
    if (!used.ok) return used;
    return ok({ answer: 'approved', approval: id, who: used.output.who ?? '' });
  };

export function createServersPrimitive(rooms: RuntimeContext): Primitive {
  const { open, library } = rooms;
  const pool = openPool(rooms);
  const primitive = createMcpPrimitive({
    pool,
    openFor: async (caller) => openPool(rooms, caller),
    library,
    put: putTool(open, library),
    approval: approvalIn(open),
  });
  return { ...primitive, ended: () => pool.close() };
}
