// Connects threads with the audit, transcripts, telemetry and notices. Every call of a thread is one row of the
// audit. A call of the harness itself is a row only if it failed, because the journal has all of them.
import { hash } from 'node:crypto';
import {
  type Clock,
  type Failure,
  harmless,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type RedactionStream,
} from '../../base/index.ts';
import type { ComposedPolicy, Frame, RecordEntry } from '../../flow/index.ts';
import type { Library } from '../../items/index.ts';
import { type Noted, shownData, withTexts } from '../../journal/index.ts';
import { type Audit, auditRow, type Caller, type Kernel } from '../../kernel/index.ts';
import type { Store } from '../../store/index.ts';
import { deriveVaultKey, type KeyPair } from '../../trust/index.ts';
import {
  createKnownSecrets,
  environmentSecrets,
  type KnownSecrets,
} from '../secrets/known-secrets.ts';
import { sealStore } from '../secrets/sealed-store.ts';
import type { ThreadFacts, ThreadResult, WatchPort } from '../thread/ports.ts';
import type { HarnessPorts } from '../thread/thread.ts';
import { createNotifier, postNotice, runNotice } from './notify.ts';
import { createRawStreams } from './raw-stream.ts';
import type { Telemetry } from './telemetry.ts';
import { Transcripts } from './transcripts.ts';

/** Returns a hash of a token, so that the rows of one token can be found and nobody can use it. */
const subjectOf = (token: string): string => `token:${hash('sha256', token).slice(0, 16)}`;

export function auditCalls(kernel: Kernel, audit: Pick<Audit, 'write'>): Kernel {
  // The subject is cached, because a thread keeps its token for a long time.
  let [hashed, subject] = ['', subjectOf('')];
  const audited = (caller: Caller): Caller => {
    const { surface, name = '' } = caller;
    const row = (entry: RecordEntry): void => {
      if (surface !== 'thread' && entry.outcome.ok) return;
      // The call has not ended. The process that resumes it writes its row.
      if (!entry.outcome.ok && entry.outcome.error.code === 'handed_over') return;
      const token = caller.auth?.() ?? caller.__auth;
      if (token !== undefined && token !== hashed) [hashed, subject] = [token, subjectOf(token)];
      const by = token === undefined ? `policy:${surface}` : subject;
      const who = { surface, caller: name, subject: by };
      const written = audit.write(auditRow(entry, who));
      // A call without an audit row fails. The pipeline turns this exception into an outcome.
      if (!written.ok) throw new Error(written.error.detail.message);
    };
    return { ...caller, act: { ...caller.act, audit: row } };
  };
  return {
    search: (request, caller) => kernel.search(request, audited(caller)),
    load: (request, caller) => kernel.load(request, audited(caller)),
    execute: (request, caller) => kernel.execute(request, audited(caller)),
    help: (request, caller) => kernel.help(request, audited(caller)),
  };
}

/** Ports of the observers. Observers get the recorded events without the secrets of the run. */
interface WatchPorts {
  store: Store;
  /** Folder of the transcripts, which is `.ai/threads`. */
  dir: string;
  /** False: no transcript is written, because there is no folder. */
  hasTranscripts: boolean;
  project: string;
  clock: Clock;
  env: HarnessPorts['env'];
  library: Library;
  kernel: Pick<Kernel, 'execute'>;
  frame(): Frame;
  policy(): ComposedPolicy;
  /** Returns the user's own key, from which the keys of vaults are derived. */
  key(): Outcome<KeyPair>;
  /** Reports a failed write or notice, which never stops a run. */
  trouble(message: string): void;
}

/** Key under which a registered SDK is found. Without an SDK the API package is not loaded. */
const SDK = Symbol.for('opentelemetry.js.api.1');

const factsOf = ({ directive, parent, kind, title }: ThreadFacts): ThreadFacts => ({
  directive,
  kind,
  ...(title !== undefined && { title }),
  ...(parent !== undefined && { parent }),
});

/** Loads the module. The caller has found a registered SDK. */
export const telemetry = () => import('./telemetry.ts');

export type RunObserver = Pick<WatchPort, 'onEvent' | 'onText'>;

/** Creates the observer of one view. A piece of text is shown as soon as no secret can begin in it. */
function createListening(
  live: RunObserver,
  known: KnownSecrets,
  trouble: (message: string) => void,
) {
  const streams = new Map<string, RedactionStream>();
  const onPiece = harmless('onText', live.onText, trouble);
  const onRecorded = harmless('onEvent', live.onEvent, trouble);
  function flush(thread: string): void {
    const rest = streams.get(thread)?.end() ?? '';
    streams.delete(thread);
    if (rest !== '') onPiece(thread, rest);
  }
  return {
    flush,
    onText(thread: string, piece: string): void {
      const stream = streams.get(thread) ?? known.redactor(thread).stream();
      streams.set(thread, stream);
      const piecesToShow = stream.push(piece);
      if (piecesToShow !== '') onPiece(thread, piecesToShow);
    },
    onEvent(thread: string, event: Noted): void {
      flush(thread);
      onRecorded(
        thread,
        withTexts(event, (data) => known.redactor(thread).json(shownData(event.type, data))),
      );
    },
  };
}

const NO_TRANSCRIPTS: Pick<Transcripts, 'open' | 'done' | 'written' | 'ahead' | 'settled'> = {
  open: () => () => {},
  done: () => {},
  written: async () => {},
  ahead: () => ({ events: 0, calls: [] }),
  settled: async () => {},
};

export function watchThreads(ports: WatchPorts) {
  const { store, dir, clock, env, library, kernel, policy, trouble } = ports;
  const now = () => clock.now();
  const known = createKnownSecrets(() => environmentSecrets(env, library));
  let derived: Uint8Array | undefined;
  const sealed = sealStore({
    store,
    known,
    key() {
      const own = derived ? undefined : ports.key();
      if (own && !own.ok) return own;
      derived ??= deriveVaultKey(own?.output.exportPrivate() ?? '');
      return ok(derived);
    },
  });
  const detail = () => policy().transcript;
  const transcripts = ports.hasTranscripts
    ? new Transcripts({ dir, clock, known, store, trouble, detail })
    : NO_TRANSCRIPTS;
  const facts = new Map<string, ThreadFacts>();
  const thread = (id: string): ThreadFacts | undefined => facts.get(id);
  let spans: Telemetry | undefined;
  const onTelemetry = harmless<Parameters<Telemetry>>(
    'telemetry',
    (id, event) => spans?.(id, event),
    trouble,
  );
  const notifier = createNotifier({
    settings: () => policy().notify,
    now,
    thread,
    scheduleOf: (id) => store.scheduleOf(id),
    post: postNotice(kernel, ports.frame),
    run: runNotice(ports.project, env),
    trouble,
  });
  const redact = <T extends Json>(id: string, value: T): T => known.redactor(id).json(value);
  const port: WatchPort = {
    ...createRawStreams({ dir, clock, trouble, redactor: known.redactor }),
    written: (id) => transcripts.written(id),
    ahead: (id, seq) => transcripts.ahead(id, seq),
    traced: (id) => spans?.request?.(id),
    mask: (id, text, inputs) =>
      (inputs === undefined ? known.redactor(id) : known.redactorBelow(id, inputs)).text(text),
    done(id) {
      transcripts.done(id);
      sealed.letGo(id);
      facts.delete(id);
    },
    transcript(id, about) {
      if (about) {
        facts.set(id, factsOf(about));
        spans?.opened?.(id);
      }
      const write = transcripts.open(id);
      return (events, firstSeq) => {
        write(events, firstSeq);
        for (const event of events) {
          onTelemetry(id, event);
          const { type } = event;
          if (type === 'thread_end' || type === 'approval') notifier.event(id, event);
        }
      };
    },
  };
  return {
    ...sealed,
    /** Returns the port for threads that this view follows, and for their descendants. */
    portFor(live: RunObserver): WatchPort {
      if (!live.onEvent && !live.onText) return port;
      const { flush, onText, onEvent } = createListening(live, known, trouble);
      return {
        ...port,
        onText,
        onEvent,
        done(id) {
          flush(id);
          port.done?.(id);
        },
      };
    },
    notify: notifier.schedule,
    done: (id: string): void => port.done?.(id),
    /** Loads telemetry if an SDK is registered. It is awaited before every run. */
    async ready(): Promise<void> {
      if (spans || !Object.hasOwn(globalThis, SDK)) return;
      const { createTelemetry } = await telemetry();
      spans ??= createTelemetry({ clock, thread });
    },
    /** Returns the text without the secrets of the thread. */
    mask: (id: string, text: string): string => known.redactor(id).text(text),
    /** Returns a result or a failure without secrets. */
    shown(result: Outcome<ThreadResult>): Outcome<ThreadResult> {
      if (!result.ok) return redact('', result as unknown as Json) as unknown as Failure;
      const { thread_id, outputs, text, reason } = result.output;
      const redacted = redact<JsonObject>(thread_id, { outputs, text, reason });
      return ok({ ...result.output, ...redacted });
    },
    /** Resolves when the transcripts are complete and every notice was delivered or has failed. */
    async settled(): Promise<void> {
      await transcripts.settled();
      await notifier.settled();
    },
  };
}
