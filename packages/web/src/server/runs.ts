// Threads that run in this process for a client of the server. The client gets an answer when the
// thread has started or was refused; the journal has its end. A thread that waited for an approval
// resumes here after the decision. With a fleet store nothing runs here: the thread is queued for
// workers.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  asJson,
  canonicalJson,
  compact,
  createRecent,
  type Failure,
  fail,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import {
  directiveLimits,
  packLimits,
  type ResumeOptions,
  type RunRequest,
} from '@kernmantle/core/harness';
import {
  type Actor,
  actorName,
  personAuditRow,
  type Runtime,
  resumeAfterApprovals,
  type ThreadObserver,
  type Threads,
} from '@kernmantle/core/runtime';
import type { ActionResult, ResumeRequestBody, RunRequestBody } from '../model/api.ts';
import type { Hub, Runs, WebCaller, WebParts } from './context.ts';

interface RunsPorts extends Pick<WebParts, 'runtime' | 'store' | 'clock' | 'onError' | 'uploads'> {
  readonly hub: Pick<Hub, 'text'>;
}

/** Bound of cached ids of threads that ran in this process. */
const MAX_OWN = 10_000;
const AT_WORK: ReadonlySet<string> = new Set(['spawning', 'running', 'terminating']);
const POLL_MS = 20;
const MAX_LOOKS = 100;

export const speakerOf = ({ who }: WebCaller): Actor => ({ who, channel: 'web' });

/** Refuses limits above the current ones, because a run can only lower them. */
function checkLowered(
  { library, policies }: Runtime,
  name: string,
  requested: RunRequest['limits'],
): Outcome<null> {
  const item = library.find('directive', name);
  if (!requested || !item.ok || !item.output.directive) return ok(null);
  const { directive } = item.output;
  const own = directiveLimits(library, policies().policy.limits, directive);
  const both = directiveLimits(library, policies().policy.limits, { limits: requested });
  if (!own.ok || !both.ok) return own.ok ? (both.ok ? ok(null) : both) : own;
  const has = packLimits(own.output);
  for (const [limit, value] of Object.entries(requested)) {
    const most = has[limit];
    const max = Number(
      typeof most === 'object' && most && 'value' in most ? most.value : Number.NaN,
    );
    if (!(Number(value) > max)) continue;
    const message = `limit \`${limit}\` cannot be ${String(value)}; a run can only lower it, and it is ${max}`;
    return fail('invalid_input', message, { field: `limits.${limit}`, max });
  }
  return ok(null);
}

/** Copies the limits of a request. The runtime refuses unsupported names. */
const limitsIn = (
  limits: RunRequestBody['limits'],
): { limits?: NonNullable<RunRequest['limits']> } =>
  limits === undefined ? {} : { limits: { ...limits } };

const requestOf = (
  { directive, inputs, limits, model, message, chat }: RunRequestBody,
  by: WebCaller,
): RunRequest =>
  compact<RunRequest>({
    directive,
    inputs: { ...inputs } as NonNullable<RunRequest['inputs']>,
    model,
    message,
    chat: chat ? true : undefined,
    ...limitsIn(limits),
    by: { who: by.who, surface: 'web' },
  });

function optionsOf(id: string, body: ResumeRequestBody, asker: WebCaller): ResumeOptions {
  const actor = speakerOf(asker);
  const by = actorName(actor);
  const { limits, model, message, from, why } = body;
  return compact<ResumeOptions>({
    from,
    model,
    ...limitsIn(limits),
    words: message === undefined ? undefined : { text: message, by },
    by,
    audit: personAuditRow(actor, 'resume', id, why),
  });
}

/** Adds the remedy to a refusal for a missing key: `km web` reads keys only at its start. */
function withRestart({ error }: Failure): Failure {
  const { message, variable } = error.detail;
  if (error.code !== 'model_unavailable' || typeof variable !== 'string')
    return { ok: false, error };
  const remedy = `start \`km web\` again with \`${variable}\` in its environment`;
  return fail(error.code, `${message}; ${remedy}`, error.detail);
}

type RunWork = (threads: Threads, signal: AbortSignal) => Promise<Outcome<{ thread_id: string }>>;

/** Starts runs, tracks current ones, and caches the ids of threads that ran in this process. */
function createLauncher({ runtime, hub, onError }: RunsPorts) {
  const own = createRecent<string, true>(MAX_OWN);
  const running = new Set<Promise<unknown>>();
  const over = new AbortController();
  let here: Pick<Threads, 'atWork' | 'isAtWork'> = { atWork: () => [], isAtWork: () => false };
  let isClosed = false;
  return {
    isOwn: (id: string): boolean => own.get(id) === true,
    isHere: (id: string): boolean => here.isAtWork(id),
    count: (): number => here.atWork().length,
    /** Starts a run. It has started when its first event is in the journal. */
    async launch(work: RunWork, kind: string, expected?: string): Promise<Outcome<ActionResult>> {
      if (isClosed) return fail('unavailable', 'the server is closing');
      const started = Promise.withResolvers<Outcome<string>>();
      const live: ThreadObserver = {
        onQueued: (thread) => started.resolve(ok(thread)),
        onText: hub.text,
        onEvent(thread) {
          own.set(thread, true);
          if (expected === undefined || thread === expected) started.resolve(ok(thread));
        },
      };
      const opened = await runtime.threads(live);
      if (!opened.ok) return opened;
      const threads = opened.output;
      here = threads;
      // With workers, this process does not observe the run.
      const signal = threads.store.fleet ? AbortSignal.abort() : over.signal;
      const settled = work(threads, signal).then(
        (run) => started.resolve(run.ok ? ok(run.output.thread_id) : run),
        (error: unknown) => {
          onError(error as Error);
          started.resolve(fail('internal_error', 'the run stopped unexpectedly'));
        },
      );
      running.add(settled);
      void settled.then(() => running.delete(settled));
      const id = await started.promise;
      if (!id.ok) return id;
      const row = await threads.store.thread(id.output);
      return row.ok ? ok({ thread_id: id.output, kind, status: row.output.status }) : row;
    },
    /** Refuses all new runs from now on. */
    refuse(): void {
      isClosed = true;
    },
    async end(): Promise<void> {
      over.abort();
      await Promise.allSettled(running);
    },
  };
}

export function createRuns(ports: RunsPorts): Runs {
  const { runtime, store, clock, onError, uploads } = ports;
  const launcher = createLauncher(ports);
  const beginning = new Map<string, { wish: string; begun: Promise<Outcome<ActionResult>> }>();

  /** Waits until this process has released the lease, which follows the final status. False: it still runs. */
  async function isReleased(id: string): Promise<boolean> {
    for (let look = 0; launcher.isHere(id); look++) {
      const opened = await store();
      const row = opened.ok ? await opened.output.thread(id) : opened;
      if (!row.ok || AT_WORK.has(row.output.status) || look > MAX_LOOKS) return false;
      await sleep(POLL_MS);
    }
    return true;
  }

  /**
   * Resumes a thread once at a time. A concurrent call without options, or with the same ones, gets
   * the same result. INVARIANT: a call with other options always fails with `conflict`.
   */
  async function resume(
    id: string,
    work: RunWork,
    body: ResumeRequestBody = {},
  ): Promise<Outcome<ActionResult>> {
    const key = canonicalJson(asJson(body));
    const current = beginning.get(id);
    if (current && (current.wish === key || key === '{}')) return await current.begun;
    if (current) return fail('conflict', `thread \`${id}\` is being resumed`, { thread: id });
    const started = isReleased(id)
      .then((isFree) =>
        isFree
          ? launcher.launch(work, 'resume', id)
          : fail('conflict', `thread \`${id}\` is running`, { thread: id }),
      )
      .finally(() => beginning.delete(id));
    beginning.set(id, { wish: key, begun: started });
    return await started;
  }

  /** Drops uploads when a thread has them. After a refusal, which the audit gets, they can be used again. */
  async function withUploads(
    [act, target, by]: [act: string, target: string, by: WebCaller],
    { attach = [] }: Pick<RunRequestBody, 'attach'>,
    begin: (files: NonNullable<RunRequest['attach']>) => Promise<Outcome<ActionResult>>,
  ): Promise<Outcome<ActionResult>> {
    const files = uploads.find(attach, by);
    const result = files.ok ? await begin(files.output) : files;
    if (result.ok) {
      uploads.drop(attach.map(({ upload }) => upload));
      return result;
    }
    const { code, detail } = result.error;
    const row = personAuditRow(speakerOf(by), act, target, `${code}: ${detail.message}`);
    runtime.audit.write({ ...row, decision: code === 'permission_denied' ? 'denied' : 'failed' });
    return withRestart(result);
  }

  const resumer = resumeAfterApprovals({
    store,
    isOwn: launcher.isOwn,
    now: () => clock.now(),
    onError,
    resumeAnywhere: (id) => resume(id, (threads, signal) => threads.resumeAnywhere(id, signal)),
  });

  return {
    start: (body, by) =>
      withUploads(['run', body.directive, by], body, async (attach) => {
        const request = { ...requestOf(body, by), attach };
        const lowered = checkLowered(runtime, body.directive, request.limits);
        if (!lowered.ok) return lowered;
        const may = await runtime.mayRun(request);
        if (!may.ok) return may;
        return await launcher.launch((threads, signal) => threads.run(request, signal), 'start');
      }),
    resume: (id, body, by) =>
      withUploads(['resume', id, by], body, async (attach) => {
        const options = { ...optionsOf(id, body, by), ...(attach.length > 0 && { attach }) };
        return await resume(id, (threads, signal) => threads.resume(id, signal, options), body);
      }),
    fork: ({ id, directive }, body, by) =>
      withUploads(['fork', id, by], body, async (attach) => {
        const { limits, attach: _, ...rest } = body;
        const who = { by: { who: by.who, surface: 'web' }, attach };
        const options = { ...rest, ...limitsIn(limits), ...who };
        const lowered = checkLowered(runtime, directive, options.limits);
        if (!lowered.ok) return lowered;
        return await launcher.launch(
          (threads, signal) => threads.fork(id, options, signal),
          'fork',
        );
      }),
    decided: () => resumer.look(),
    askAgain(id) {
      void resume(id, (threads, signal) => threads.resumeAnywhere(id, signal)).then((run) => {
        if (!run.ok && run.error.code !== 'lease_held') {
          onError(new Error(`thread \`${id}\` cannot ask again: ${run.error.detail.message}`));
        }
      });
    },
    isHere: launcher.isHere,
    count: launcher.count,
    async close() {
      launcher.refuse();
      await resumer.close();
      await launcher.end();
    },
  };
}
