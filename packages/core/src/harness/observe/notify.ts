// Notifies people of approval requests and failed runs: by a request through the kernel's HTTP chain, or by a
// line on the standard input of a command, which only a policy with authority can name. INVARIANT: the payload
// never contains more than names, codes, times and the masked title.
import {
  fail,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  spawn,
} from '../../base/index.ts';
import type { Frame, NOTICE_KINDS } from '../../flow/index.ts';
import type { JournalEvent } from '../../journal/index.ts';
import type { Kernel } from '../../kernel/index.ts';
import type { ThreadStatus } from '../../store/index.ts';

const TIMEOUT_MS = 10_000;

export const postNotice =
  (kernel: Pick<Kernel, 'execute'>, frame: () => Frame) =>
  async (url: string, notice: JsonObject): Promise<Outcome<unknown>> =>
    await kernel.execute(
      {
        item_type: 'tool',
        item_id: 'http/request',
        parameters: { method: 'POST', url, body: notice },
      },
      {
        surface: 'harness',
        name: 'notify',
        frame: frame(),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      },
    );

export const runNotice =
  (cwd: string, env: Readonly<Record<string, string | undefined>>) =>
  ([file = '', ...args]: readonly string[], notice: JsonObject): Promise<Outcome<unknown>> =>
    new Promise((resolve) => {
      const child = spawn(file, args, {
        cwd,
        env: { ...env },
        stdio: ['pipe', 'ignore', 'ignore'],
        timeout: TIMEOUT_MS,
        killSignal: 'SIGKILL',
      });
      child.on('error', () => resolve(fail('tool_failed', 'the command cannot be started')));
      child.on('close', (code) =>
        resolve(code === 0 ? ok(null) : fail('tool_failed', `the command ended with ${code}`)),
      );
      // A write error is ignored, because a command need not read its input.
      child.stdin?.on('error', () => {});
      child.stdin?.end(`${JSON.stringify(notice)}\n`);
    });

type NoticeKind = (typeof NOTICE_KINDS)[number];
type Notice = {
  event: NoticeKind;
  /** Absent: the notice is about a tick of a schedule that started no thread. */
  thread_id?: string;
  /** Name of the schedule that started the tree of the thread. Absent: no schedule did. */
  schedule?: string;
  directive: string;
  /** Title of the run. Absent: it has no message and no text input. */
  title?: string;
  status: string;
  code: string;
  at: string;
  /** Id of the approval request, for `km approvals`. Absent: the notice is not about one. */
  approval_id?: string;
};

export type ScheduleNotice = Required<
  Pick<Notice, 'event' | 'schedule' | 'directive' | 'status' | 'code'>
>;

interface NotifyPorts {
  /** `notify` of the policy in force. */
  settings(): JsonObject | undefined;
  now(): number;
  thread(
    id: string,
  ): { directive: string; parent?: string; kind: string; title?: string } | undefined;
  /** Returns the name of the schedule that started the tree of a thread. Empty: none. */
  scheduleOf(thread: string): Promise<Outcome<string>>;
  post(url: string, notice: Notice): Promise<Outcome<unknown>>;
  run(command: readonly string[], notice: Notice): Promise<Outcome<unknown>>;
  trouble(message: string): void;
}

const CODE = /^[a-z_]{1,60}$/;
const ENDINGS: { readonly [status in ThreadStatus]?: NoticeKind } = {
  failed: 'failed',
  denied: 'failed',
  limit: 'limit',
};

/** Returns the notice for an event, and `undefined` for most events. */
function noticeFor(
  { type, data }: JournalEvent,
  isRoot: boolean,
): Pick<Notice, 'event' | 'status' | 'code' | 'approval_id'> | undefined {
  if (type === 'approval' && data.state === 'pending') {
    const event = data.action === 'stuck' ? 'stuck' : 'approval';
    const request = data.approval === undefined ? {} : { approval_id: data.approval };
    return { event, status: 'waiting', code: '', ...request };
  }
  // The end of a child concerns its parent alone. An approval request always concerns people.
  if (type !== 'thread_end' || !isRoot) return undefined;
  const { status, code = '' } = data;
  const event = ENDINGS[status];
  return event && { event, status, code: CODE.test(code) ? code : '' };
}

/** Returns a command with its arguments. The shell runs a text; a list is run directly. */
function commandOf(command: Json | undefined): readonly string[] | undefined {
  if (typeof command === 'string' && command !== '') return ['/bin/sh', '-c', command];
  if (!Array.isArray(command) || command.length === 0) return undefined;
  return command.map(plainText);
}

export function createNotifier(ports: NotifyPorts) {
  const underWay = new Set<Promise<void>>();

  async function awaitDelivery(work: Promise<Outcome<unknown>>): Promise<void> {
    const outcome = await work.catch(() => fail('internal_error', 'the notice failed'));
    if (!outcome.ok) ports.trouble(`a notice was not delivered: ${outcome.error.code}`);
  }
  function keep(work: Promise<Outcome<unknown>>): void {
    const pending = awaitDelivery(work).finally(() => underWay.delete(pending));
    underWay.add(pending);
  }
  function send(notice: Omit<Notice, 'at'>): void {
    const settings = ports.settings();
    if (!isObject(settings)) return;
    if (Array.isArray(settings.on) && !settings.on.includes(notice.event)) return;
    const { webhook } = settings;
    const command = commandOf(settings.command);
    const dated = { ...notice, at: new Date(ports.now()).toISOString() };
    const named = async (): Promise<Notice> => {
      const { thread_id } = notice;
      const found = thread_id === undefined ? ok('') : await ports.scheduleOf(thread_id);
      const schedule = found.ok ? found.output : '';
      return { ...dated, ...(schedule !== '' && { schedule }) };
    };
    if (typeof webhook === 'string' && webhook !== '') {
      keep(named().then((whole) => ports.post(webhook, whole)));
    }
    if (command) keep(named().then((whole) => ports.run(command, whole)));
  }
  return {
    schedule: (notice: ScheduleNotice): void => send(notice),
    event(thread: string, event: JournalEvent): void {
      // An approval request of a hook belongs to the thread that it serves.
      let [id, about] = [thread, ports.thread(thread)];
      while (about?.kind === 'hook' && event.type === 'approval') {
        [id, about] = [about.parent ?? '', ports.thread(about.parent ?? '')];
      }
      if (!about || about.kind === 'hook') return;
      const news = noticeFor(event, about.parent === undefined);
      if (!news) return;
      const { directive, title } = about;
      send({ ...news, thread_id: id, directive, ...(title !== undefined && { title }) });
    },
    /** Resolves when every notice was delivered or has failed. */
    async settled(): Promise<void> {
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}
