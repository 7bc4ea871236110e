// The output of a command while a thread runs: a live view on a terminal, a line per event without one, and JSON
// events for programs. The views only show events.
import { shorten } from '@kernmantle/core/base';
import type { RunObserver } from '@kernmantle/core/harness';
import { argumentsText, eventFlags, type Noted, summary } from '@kernmantle/core/journal';
import type { Store } from '@kernmantle/core/store';
import { createScreen } from '../terminal/screen.ts';
import { type Drawn, type Terminal, visible } from '../terminal/terminal.ts';
import { figureLines, SAYING_MAX } from './figure-lines.ts';
import { toldOf } from './status-text.ts';

export interface RunView {
  live: RunObserver;
  /** Called when the registry is open. `root`: a thread that existed before. */
  begin(store: Store, root?: string): Promise<void>;
  /** The thread of the first event. */
  root(): string | undefined;
  /** True after the first event. A queued run has none yet. */
  isAtWork(): boolean;
  /** Prints a line for the user between events. */
  say(line: string): void;
  /** Resolves when all events are shown. */
  end(): Promise<void>;
}

/** The registry and the root thread. Absent before `begin` and before the first event. */
interface ViewContext {
  store: Store | undefined;
  root: string | undefined;
}

type Handler = (thread: string, event: Noted, at: ViewContext) => Promise<void>;

/** Creates the part that all views share. It finds the root thread and handles one event at a time. */
function createObserver(hear: Handler, onText: (thread: string, piece: string) => void = () => {}) {
  let root: string | undefined;
  let store: Store | undefined;
  let handled: Promise<void> = Promise.resolve();
  let isAtWork = false;
  return {
    root: () => root,
    isAtWork: () => isAtWork,
    store: () => store,
    handled: () => handled,
    async begin(opened: Store, thread?: string): Promise<void> {
      [store, root] = [opened, thread];
    },
    live: {
      onEvent(thread: string, event: Noted): void {
        root ??= thread;
        isAtWork = true;
        handled = handled.then(() => hear(thread, event, { store, root }));
      },
      onText,
    },
  };
}

/** Prints each event once, as it is in the registry. An event only triggers a read. */
function createJsonView(terminal: Terminal): RunView {
  const printed = new Map<string, number>();
  async function flush(thread: string): Promise<void> {
    const events = await observer.store()?.read(thread, { after: printed.get(thread) ?? 0 });
    for (const event of events?.ok ? events.output : []) {
      printed.set(thread, event.seq);
      terminal.out(JSON.stringify(event));
    }
  }
  const observer = createObserver((thread) => flush(thread));
  return {
    ...observer,
    async begin(store, root) {
      await observer.begin(store, root);
      const row = root === undefined ? undefined : await store.thread(root);
      // `threads show` prints older events.
      if (row?.ok) printed.set(row.output.id, row.output.seq);
    },
    say: (line) => terminal.note(line),
    async end() {
      await observer.handled();
      const root = observer.root();
      for (const thread of new Set([...printed.keys(), ...(root === undefined ? [] : [root])])) {
        await flush(thread);
      }
    },
  };
}

function lineFor(
  thread: string,
  event: Noted,
  isOwn: boolean,
  terminal: Terminal,
): string | undefined {
  const { turn, isFrame } = eventFlags(event.type);
  if (turn === 'begins') {
    return isOwn ? terminal.paint('dim', `turn ${event.turn}`) : undefined;
  }
  const line = isFrame ? undefined : toldOf(event);
  if (!line) return undefined;
  const from = isOwn ? '' : `${terminal.paint('dim', shorten(thread, 40))} `;
  // The whole plan is shown before its first step. A reply of the thread itself is shown whole too.
  const isWhole = event.type === 'plan' || (isOwn && turn === 'replies');
  const text = isWhole ? line.text.trim().replaceAll('\n', '\n    ') : shorten(line.text, 300);
  return `  ${from}${terminal.paint(line.colour, line.mark)} ${visible(text)}`;
}

async function headLine({ store, root }: ViewContext, terminal: Terminal): Promise<string> {
  const row = root === undefined ? undefined : await store?.thread(root);
  const { directive = '', version = '', title = '' } = row?.ok ? row.output : {};
  const name = terminal.paint('bold', `${directive} ${version}`.trim());
  return [name, terminal.paint('dim', root ?? ''), visible(title)].join(' ').trimEnd();
}

/** Prints the lines that stay: the head once, then one per event with a text. */
function createTeller(terminal: Terminal, print: (line: string) => void): Handler {
  let isHeaded = false;
  // The last reply is the result of the run. The command prints the result, so that reply has no line here.
  let last: string | undefined;
  // A repeated request can fail with the same text, which is printed once.
  const failed = new Set<string>();
  return async (thread, event, at) => {
    if (!isHeaded) print(await headLine(at, terminal));
    isHeaded = true;
    const isOwn = thread === at.root;
    const line = lineFor(thread, event, isOwn, terminal);
    const { turn, isFrame } = eventFlags(event.type);
    if (turn === 'fails' && line !== undefined) {
      if (failed.has(line)) return;
      failed.add(line);
    }
    if (isOwn && isFrame) last = undefined;
    if (line === undefined) return;
    if (last !== undefined) print(last);
    last = isOwn && turn === 'replies' ? line : undefined;
    if (last === undefined) print(line);
  };
}

function createPlainView(terminal: Terminal): RunView {
  const observer = createObserver(createTeller(terminal, terminal.note));
  const drawn = { pause: () => observer.handled(), resume: () => {} };
  terminal.drawn.add(drawn);
  async function end(): Promise<void> {
    await observer.handled();
    terminal.drawn.delete(drawn);
  }
  return { ...observer, say: (line) => terminal.note(line), end };
}

const REDRAW_MS = 100;

function createLiveView(terminal: Terminal): RunView {
  const screen = createScreen(terminal.write);
  const startedAt = performance.now();
  const summaries = new Map<string, ReturnType<typeof summary.initial>>();
  const tell = createTeller(terminal, screen.print);
  let [doing, saying, frame] = ['waits for the model', '', 0];

  let isDrawing = false;
  async function draw(): Promise<void> {
    const [store, root] = [observer.store(), observer.root()];
    if (isDrawing || !store || root === undefined) return;
    isDrawing = true;
    const row = await store.thread(root);
    isDrawing = false;
    if (!row.ok || isOver) return;
    const { directive } = row.output;
    const { turn, limits: changed } = summaries.get(root) ?? summary.initial();
    const limits = { ...row.output.limits, ...changed };
    // The registry counts a turn at its end.
    const cost = { ...row.output.cost, turns: Math.max(turn, Number(row.output.cost.turns ?? 0)) };
    const open = [...summaries].filter(([id, { endedAt }]) => id !== root && !endedAt);
    const elapsedMs = performance.now() - startedAt;
    const figures = { directive, cost, limits, elapsedMs };
    const isElsewhere = store.fleet !== undefined;
    const now = isElsewhere && row.output.owner === undefined ? 'waits for a worker' : doing;
    const below = { children: open.length, isElsewhere };
    const rest = { doing: now, saying: visible(saying), frame: frame++, ...below };
    screen.draw(figureLines({ ...figures, ...rest }, terminal.columns(), terminal.paint));
  }

  function follow(thread: string, event: Noted): void {
    const before = summaries.get(thread) ?? summary.initial();
    const place = { thread, seq: before.seq + 1, ts: Date.now() };
    summaries.set(thread, summary.apply(before, { ...event, ...place }));
    if (thread !== observer.root()) return;
    if (eventFlags(event.type).turn === 'begins') [doing, saying] = ['waits for the model', ''];
    if (event.type !== 'tool_call') return;
    const { tool, arguments: values } = event.data;
    doing = visible(`${tool} ${argumentsText(values, 60)}`).trim();
  }

  const observer = createObserver(
    async (thread, event, at) => {
      follow(thread, event);
      if (eventFlags(event.type).turn !== 'begins') await tell(thread, event, at);
    },
    (thread, piece) => {
      if (thread !== observer.root()) return;
      doing = 'the model replies';
      saying = (saying + piece).slice(-SAYING_MAX);
    },
  );
  const timer = setInterval(() => void draw(), REDRAW_MS);
  let isOver = false;
  const drawn: Drawn = {
    async pause() {
      await observer.handled();
      screen.pause();
    },
    resume: screen.resume,
  };
  terminal.drawn.add(drawn);
  return {
    ...observer,
    say: (line) => screen.print(line),
    async end() {
      clearInterval(timer);
      await observer.handled();
      isOver = true;
      terminal.drawn.delete(drawn);
      screen.close();
    },
  };
}

export function createRunView(terminal: Terminal): RunView {
  if (terminal.json) return createJsonView(terminal);
  return terminal.isLive ? createLiveView(terminal) : createPlainView(terminal);
}
