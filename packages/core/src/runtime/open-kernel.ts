// Creates the kernel of one project: it mounts the primitives, decides rights and creates the verbs.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { compact, fail, type Outcome, ok } from '../base/index.ts';
import {
  type ComposedPolicy,
  createFrame,
  createLabelRecords,
  type LabelRecords,
  type MaybePromise,
  type RecordEntry,
  type SharedLines,
} from '../flow/index.ts';
import { copyItem, type ItemKind, type Library } from '../items/index.ts';
import {
  type Authority,
  auditRow,
  type Caller,
  createItemMarks,
  createKeepOut,
  createKernel,
  createModifier,
  createToolLines,
  createToolPreparer,
  directiveKind,
  type EmbeddedKernel,
  type Handles,
  type Kind,
  knowledgeKind,
  moduleSink,
  policyAuthority,
  readOnly,
  restrictTo,
  type SignaturePolicy,
  shippedPrimitives,
  shippedSinks,
  type ToolPorts,
  tokenAuthority,
  toolKind,
} from '../kernel/index.ts';
import type { Fleet } from '../store/index.ts';
import { type CapabilityCatalog, createTokenVerifier, type TokenVerifier } from '../trust/index.ts';
import { type AskPerson, askOutside } from './ask-person.ts';
import { hostGate, type OpenProject, processPorts, recordsFolder } from './open-project.ts';
import { projectId } from './project-identity.ts';

const NO_REGISTRY = fail('permission_denied', 'without a registry an approval cannot be used');

export interface CallOptions {
  /** Surface of the call. Default: `library`. */
  surface?: string;
  name?: string;
  signal?: AbortSignal;
  /** True if the caller may only read. */
  isViewer?: boolean;
  /** Names of threads for the client. Absent: the client cannot name a thread. */
  handles?: Handles;
  /** Receives the output of a tool's process as it arrives. It must not throw. */
  onOutput?: (text: string) => void;
  /** Asks a present person if a guard, a rule or a tier requires an approval. */
  person?: AskPerson;
}

export function mountPrimitives(open: OpenProject, library: Library): void {
  const ports = {
    clock: open.clock,
    isHostAllowed: hostGate(open, library),
    process: () => processPorts(open),
  };
  for (const primitive of shippedPrimitives(ports)) open.primitives.set(primitive.name, primitive);
}

function toolPorts(open: OpenProject, library: Library, labels: LabelRecords): ToolPorts {
  const { project, clock, env, policies, primitives } = open;
  const signatures = (): SignaturePolicy => {
    const { catalog } = library.capabilities();
    return {
      allowsUnsigned: policies.current().policy.allowsUnsigned,
      isRead: (capability) => catalog.get(capability)?.tier === 'read',
    };
  };
  return {
    library,
    primitives,
    sinks: {
      library,
      signatures,
      factories: shippedSinks({
        isHostAllowed: hostGate(open, library),
        clock,
        ownFolder: (id) => `.ai/threads/${id}`,
      }),
      moduleSink: moduleSink(() => processPorts(open)),
    },
    retry: {
      sleep: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
    },
    labels,
    clock,
    env,
    projectRoot: project,
    signatures,
  };
}

/**
 * Returns the verifier of tokens under the policies and capabilities in force. Without a registry, as in
 * a replay, the state of threads is not checked.
 */
export function createVerify(
  open: OpenProject,
  library: Library,
  source: Pick<OpenProject, 'registry'> = open,
): TokenVerifier['verify'] {
  const { project, clock, policies, keys } = open;
  let cached:
    | { catalog: CapabilityCatalog; policy: ComposedPolicy; verifier: TokenVerifier }
    | undefined;
  return (auth, thread) => {
    const { catalog } = library.capabilities();
    const { policy } = policies.current();
    // A verifier caches verified tokens, so new ceilings or capabilities need a new verifier.
    if (cached?.catalog !== catalog || cached.policy !== policy) {
      const root = keys.tokenKey();
      if (!root.ok) return root;
      const verifier = createTokenVerifier({
        roots: [{ id: root.output.id, key: root.output.publicKey }],
        audience: 'kernmantle',
        project,
        clock,
        catalog,
        ceilings: policy.ceilings(),
        isRevoked: (thread) => source.registry?.standing(thread) === 'revoked',
        isKnownThread: (thread) => (source.registry?.standing(thread) ?? 'good') === 'good',
        useApproval: (use) => source.registry?.useApproval(use) ?? NO_REGISTRY,
      });
      cached = { catalog, policy, verifier };
    }
    return cached.verifier.verify(auth, thread);
  };
}

export function sharedVerify(open: OpenProject, library: Library): TokenVerifier['verify'] {
  open.verify ??= createVerify(open, library);
  return open.verify;
}

const READY = ok(null);

const WHY_KEPT =
  'contains records of the runtime; read threads with `threads/read_transcript`, and past actions in the audit';

/** Returns the folders of a project that no file capability covers. */
export const closedPlaces = ({ project, home }: Pick<OpenProject, 'project' | 'home'>) => ({
  project,
  home,
  whyKept: WHY_KEPT,
});

/** Returns the rights of a caller: of its token, or of the operator's policy for the surface. */
export function createAuthorize(
  open: OpenProject,
  library: Library,
): (caller: Caller) => Outcome<Authority> {
  const verify = sharedVerify(open, library);
  const keepOut = createKeepOut(closedPlaces(open), open.clock);
  return (caller) => {
    // A call whose audit row cannot be written is not started. A running thread has recorded its intent.
    const isRunning = open.live?.get(caller.__thread_id ?? '') !== undefined;
    const ready = isRunning ? READY : open.audit.ready();
    if (!ready.ok) return ready;
    if (caller.__auth === undefined) {
      const { policy } = open.policies.current();
      const { catalog } = library.capabilities();
      const authority = keepOut(policyAuthority(policy, caller.surface, catalog));
      return ok(
        restrictTo(caller.isViewer ? readOnly(authority, catalog) : authority, caller.only),
      );
    }
    const token = verify(caller.__auth, caller.__thread_id);
    if (!token.ok) return token;
    const authority = keepOut(tokenAuthority(token.output), caller.__thread_id);
    return ok(restrictTo(authority, caller.only));
  };
}

/** Throws if a row could not be written, which makes the call fail. */
export function throwIfNotRecorded(written: Outcome<null>): void {
  if (!written.ok) throw new Error(written.error.detail.message);
}

/** Returns a caller without a thread. Its frame carries the policy, and its ports write the audit. */
export function callerOf(
  open: OpenProject,
  { surface = 'library', name = '', signal, person, isViewer, handles, onOutput }: CallOptions,
): Caller {
  const record = (entry: RecordEntry): MaybePromise<void> => {
    const row = auditRow(entry, { surface, caller: name, subject: `policy:${surface}` });
    const target = handles?.claimOf(row.target) ?? row.target;
    const written = open.audit.write({ ...row, target });
    const stored = written.ok ? open.audit.kept?.() : undefined;
    return stored ? stored.then(throwIfNotRecorded) : throwIfNotRecorded(written);
  };
  const ask = askOutside(open, { surface, name, person });
  const frame = createFrame({ policy: open.policies.current().policy, ports: { ask } });
  const more = compact({ signal, isViewer, handles, onOutput });
  return { surface, name, frame, act: { record }, ...more };
}

/** Returns the label lines of a project in a store that machines share. */
function sharedLines(open: OpenProject): SharedLines {
  async function ask<T>(
    work: (rows: Fleet, project: string) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    const id = projectId(open.project);
    if (!id.ok) return id;
    const store = await open.store?.();
    if (store?.ok === false) return store;
    const fleet = store?.output.fleet;
    return fleet
      ? await work(fleet, id.output.id)
      : fail('internal_error', 'this store cannot store labels of files');
  }
  return {
    read: (after) => ask((fleet, project) => fleet.labelRows(project, after)),
    add: (lines) => ask((fleet, project) => fleet.addLabelRows(project, lines)),
  };
}

/** Returns the label records of the files of a project, from a file beside it or from the shared store. */
export function labelRecords(open: OpenProject): LabelRecords {
  const file = join(recordsFolder(open.project, open.home), 'labels.jsonl');
  if (open.shared.address === undefined) return createLabelRecords(file, open.project);
  open.shared.labels ??= createLabelRecords(file, open.project, sharedLines(open));
  return open.shared.labels;
}

export function createVerbs(
  open: OpenProject,
  library: Library,
  more: readonly Kind[],
): EmbeddedKernel {
  const labels = labelRecords(open);
  const marks = createItemMarks(labels);
  const ports = toolPorts(open, library, labels);
  const modify = createModifier(library, marks);
  const authorize = createAuthorize(open, library);
  return createKernel({
    library,
    // The state of a thread that runs elsewhere is read once per call.
    async authorize(caller) {
      if (caller.__auth !== undefined && caller.__thread_id !== undefined) {
        await open.registry?.learn(caller.__thread_id);
      }
      if (labels.shared) await labels.shared.catchUp();
      return authorize(caller);
    },
    kinds: [
      toolKind(library, createToolPreparer(ports), modify),
      directiveKind(library, modify, marks),
      knowledgeKind(library, modify, marks),
      ...more,
    ],
    openLine: createToolLines(ports),
    tierExemption: open.tierExemption,
    marks,
    signal: async (signal, caller) => {
      const running = open.live?.get(caller.__thread_id ?? '');
      if (running) {
        const { helpSignal } = await import('../harness/index.ts');
        return await helpSignal(running.thread, signal);
      }
      const message = 'the signal has no thread, because no thread makes this call';
      return ok({ action: signal.action, delivered: false, message });
    },
    copies: {
      copy(item, level) {
        library.noteChange();
        return copyItem(item, level === 'user' ? open.home : join(open.project, '.ai'));
      },
      inCatalog: (kind, id) => open.catalogs.resolve(kind, id),
      async fromCatalog(kind, id, level) {
        const copied = await open.catalogs.copy(kind, id, level);
        library.noteChange();
        return copied;
      },
    },
    searchCatalog: ({ query, item_type, limit }) =>
      open.catalogs.search(
        compact({ text: query, kind: item_type as ItemKind | undefined, limit }),
      ),
  });
}
