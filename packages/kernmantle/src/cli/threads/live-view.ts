// What is seen while a thread runs: a live view on a terminal, a line for every event elsewhere,
// JSON events for programs. All three hear the same things; none decides anything.
import { type JsonObject, shorten } from '@kernmantle/core/base';
import type { Live } from '@kernmantle/core/harness';
import { argumentsText, eventFlags, type Noted } from '@kernmantle/core/journal';
import type { Store } from '@kernmantle/core/store';
import { createScreen } from '../terminal/screen.ts';
import { type Drawn, type Terminal, visible } from '../terminal/terminal.ts';
import { figureLines, SAYING_MAX } from './figure-lines.ts';
import { toldOf } from './status-text.ts';

export interface RunView {
  live: Live;
  /** The registry is there; the thread too when it is an old one that goes on. */
  begin(store: Store, root?: string): Promise<void>;
  /** The first thread that was heard of. */
  root(): string | undefined;
  /** Was anything heard of it yet? */
  isAtWork(): boolean;
  /** A line for the person meanwhile. */
  say(line: string): void;
  /** Until everything that was heard is shown. */
  end(): Promise<void>;
}

/** The registry and the first thread, as far as they are known. */
interface HeardFrom {
  store: Store | undefined;
  root: string | undefined;
}

type Hear = (thread: string, event: Noted, at: HeardFrom) => Promise<void>;

/** What the views share: which thread is the one, and whose events these are, one after the other. */
function createEars(hear: Hear, onText: (thread: string, piece: string) => void = () => {}) {
  let root: string | undefined;
  let store: Store | undefined;
  let heard: Promise<void> = Promise.resolve();
  let isAtWork = false;
  return {
    root: () => root,
    isAtWork: () => isAtWork,
    store: () => store,
    heard: () => heard,
    async begin(opened: Store, known?: string): Promise<void> {
      [store, root] = [opened, known];
    },
    live: {
      onEvent(thread: string, event: Noted): void {
        root ??= thread;
        isAtWork = true;
        heard = heard.then(() => hear(thread, event, { store, root }));
      },
      onText,
    },
  };
}

/** Every event as the registry has it, in order, once: read from there whenever something happened. */
function createJsonView(terminal: Terminal): RunView {
  const printed = new Map<string, number>();
  async function flush(thread: string): Promise<void> {
    const events = await ears.store()?.read(thread, { after: printed.get(thread) ?? 0 });
    for (const event of events?.ok ? events.output : []) {
      printed.set(thread, event.seq);
      terminal.out(JSON.stringify(event));
    }
  }
  const ears = createEars((thread) => flush(thread));
  return {
    ...ears,
    async begin(store, root) {
      await ears.begin(store, root);
      const row = root === undefined ? undefined : await store.thread(root);
      // What was before is in `threads show`.
      if (row?.ok) printed.set(row.output.id, row.output.seq);
    },
    say: (line) => terminal.note(line),
    async end() {
      await ears.heard();
      const root = ears.root();
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
  if (event.type === 'turn_start') {
    return isOwn ? terminal.paint('dim', `turn ${event.turn}`) : undefined;
  }
  const told = eventFlags(event.type).isFrame ? undefined : toldOf(event);
  if (!told) return undefined;
  const from = isOwn ? '' : `${terminal.paint('dim', shorten(thread, 40))} `;
  // A plan is shown as it is written, before any of it is done. So is a reply of the thread itself.
  const isWhole = event.type === 'plan' || (isOwn && event.type === 'assistant_message');
  const text = isWhole ? told.text.trim().replaceAll('\n', '\n    ') : shorten(told.text, 300);
  return `  ${from}${terminal.paint(told.colour, told.mark)} ${visible(text)}`;
}

async function headLine({ store, root }: HeardFrom, terminal: Terminal): Promise<string> {
  const row = root === undefined ? undefined : await store?.thread(root);
  const { directive = '', version = '', title = '' } = row?.ok ? row.output : {};
  const name = terminal.paint('bold', `${directive} ${version}`.trim());
  return [name, terminal.paint('dim', root ?? ''), visible(title)].join(' ').trimEnd();
}

/** Prints the lines that stay: the head once, then one for every event that says something. */
function createTeller(terminal: Terminal, print: (line: string) => void): Hear {
  let isHeaded = false;
  // The last words of a run are its result: they are printed as such, not here.
  let held: string | undefined;
  // A request that is made again fails in the same way: that is said once.
  const failed = new Set<string>();
  return async (thread, event, at) => {
    if (!isHeaded) print(await headLine(at, terminal));
    isHeaded = true;
    const isOwn = thread === at.root;
    const line = lineFor(thread, event, isOwn, terminal);
    if (event.type === 'error' && line !== undefined) {
      if (failed.has(line)) return;
      failed.add(line);
    }
    if (isOwn && event.type === 'thread_end') held = undefined;
    if (line === undefined) return;
    if (held !== undefined) print(held);
    held = isOwn && event.type === 'assistant_message' ? line : undefined;
    if (held === undefined) print(line);
  };
}

function createPlainView(terminal: Terminal): RunView {
  const ears = createEars(createTeller(terminal, terminal.note));
  const drawn = { pause: () => ears.heard(), goOn: () => {} };
  terminal.drawn.add(drawn);
  async function end(): Promise<void> {
    await ears.heard();
    terminal.drawn.delete(drawn);
  }
  return { ...ears, say: (line) => terminal.note(line), end };
}

const REDRAW_MS = 100;

function createLiveView(terminal: Terminal): RunView {
  const screen = createScreen(terminal.write);
  const startedAt = performance.now();
  const children = new Set<string>();
  const tell = createTeller(terminal, screen.print);
  let [doing, saying, frame, turn] = ['waits for the model', '', 0, 0];
  let raised: JsonObject = {};

  let isDrawing = false;
  async function draw(): Promise<void> {
    const [store, root] = [ears.store(), ears.root()];
    if (isDrawing || !store || root === undefined) return;
    isDrawing = true;
    const row = await store.thread(root);
    isDrawing = false;
    if (!row.ok || isOver) return;
    const { directive } = row.output;
    const limits = { ...row.output.limits, ...raised };
    // The registry counts a turn when it is over.
    const cost = { ...row.output.cost, turns: Math.max(turn, Number(row.output.cost.turns ?? 0)) };
    const elapsedMs = performance.now() - startedAt;
    const figures = { directive, cost, limits, elapsedMs };
    const isElsewhere = store.fleet !== undefined;
    const now = isElsewhere && row.output.owner === undefined ? 'waits for a worker' : doing;
    const below = { children: children.size, isElsewhere };
    const rest = { doing: now, saying: visible(saying), frame: frame++, ...below };
    screen.draw(figureLines({ ...figures, ...rest }, terminal.columns(), terminal.paint));
  }

  function follow(thread: string, { type, data, turn: now }: Noted): void {
    if (thread !== ears.root()) {
      if (type === 'thread_end') children.delete(thread);
      else children.add(thread);
      return;
    }
    if (type === 'turn_start') [doing, saying, turn] = ['waits for the model', '', now];
    if (type === 'retry') turn = 0;
    if (type === 'hook' && data.limits) raised = data.limits;
    if (type === 'tool_call') {
      doing = visible(`${data.tool} ${argumentsText(data.arguments, 60)}`).trim();
    }
  }

  const ears = createEars(
    async (thread, event, at) => {
      follow(thread, event);
      if (event.type !== 'turn_start') await tell(thread, event, at);
    },
    (thread, piece) => {
      if (thread !== ears.root()) return;
      doing = 'the model is speaking';
      saying = (saying + piece).slice(-SAYING_MAX);
    },
  );
  const timer = setInterval(() => void draw(), REDRAW_MS);
  let isOver = false;
  const drawn: Drawn = {
    async pause() {
      await ears.heard();
      screen.pause();
    },
    goOn: screen.goOn,
  };
  terminal.drawn.add(drawn);
  return {
    ...ears,
    say: (line) => screen.print(line),
    async end() {
      clearInterval(timer);
      await ears.heard();
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
