// The chat of a person at a terminal: text scrolls above an editor and a status line. Everything that is printed passes
// `visible`, so no escape sequence of a model or of a tool reaches the terminal.
import { emitKeypressEvents, Interface, type Key } from 'node:readline';
import {
  EXIT,
  type Failure,
  getOwn,
  isObject,
  type Json,
  listAt,
  plainText,
  shorten,
  textAt,
} from '@kernmantle/core/base';
import { type Attachment, environmentSecrets } from '@kernmantle/core/harness';
import {
  conversation,
  decodeAll,
  eventFlags,
  type Noted,
  project,
  replyText,
} from '@kernmantle/core/journal';
import { createFigures } from '../../conversation/figures.ts';
import type { ChatLine } from '../../conversation/session.ts';
import { createScreen } from '../terminal/screen.ts';
import { type Drawn, type Terminal, visible } from '../terminal/terminal.ts';
import { paintDiff } from '../threads/ask-person.ts';
import { fit, statusColour, toldOf, widthOf } from '../threads/status-text.ts';
import { type ChatUi, completeIn, readTyped } from './commands.ts';
import { createEditor } from './editor.ts';
import { openHistory } from './history.ts';
import type { ChatSession } from './session.ts';
import { createTextFlow } from './text-flow.ts';

const [PASTE_ON, PASTE_OFF] = ['\u001b[?2004h', '\u001b[?2004l'];
const [REDRAW_MS, LEAVE_MS, ESCAPE_MS, MAX_DIFF] = [100, 1000, 50, 12];
/** Kinds of signals of the person. */
const QUIET: ReadonlySet<Json | undefined> = new Set(['approval', 'message', 'interrupt', 'pause']);
const WHEEL = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏';

/** StatusFigures and words that the status line shows. */
interface StatusFigures {
  directive: string;
  model: string;
  status: string;
  doing: string;
  turns: number;
  /** Filled part of the context window in percent. Absent: the window is not known. */
  context?: number;
  spend: string;
  labels: ReadonlySet<string>;
}

/** Returns the status line. In a narrow terminal the parts that matter least are left out first. */
function statusLine(figures: StatusFigures, columns: number, paint: Terminal['paint']): string {
  const { directive, model, status, doing, turns, context, spend, labels } = figures;
  const parts = new Map([
    ['directive', directive],
    ['model', model],
    ['status', doing || (status === 'completed' ? 'ready' : status)],
    ['turns', turns > 0 ? `${turns} ${turns === 1 ? 'turn' : 'turns'}` : ''],
    ['context', context === undefined ? '' : `context ${context} %`],
    ['spend', spend],
    ['labels', [...labels].join(' ')],
  ]);
  const text = () => [...parts.values()].filter((part) => part !== '').join(' · ');
  for (const name of ['turns', 'directive', 'model', 'context', 'spend']) {
    if (widthOf(text()) < columns) break;
    parts.delete(name);
  }
  const painted = [...parts].flatMap(([name, part]) => {
    if (part === '') return [];
    const colour = name === 'labels' ? 'yellow' : name === 'status' ? statusColour(status) : 'dim';
    return [paint(colour, name === 'status' ? fit(part, columns - 1) : part)];
  });
  return painted.join(paint('dim', ' · '));
}

/** Returns the change of a file that a call made without a question, in a few lines. */
function changeLines({ data }: Extract<Noted, { type: 'tool_call' }>): string[] {
  const parameters = getOwn(data.arguments, 'parameters');
  if (!isObject(parameters) || !/^fs\/(edit|write)_file$/.test(data.tool)) return [];
  const lines = (sign: string, name: string): string[] =>
    textAt(parameters, name)
      .trimEnd()
      .split('\n')
      .filter(Boolean)
      .map((line) => `${sign}${line}`);
  const all = [...lines('-', 'old_string'), ...lines('+', 'new_string'), ...lines('+', 'content')];
  const rest = all.length - MAX_DIFF;
  return rest > 0 ? [...all.slice(0, MAX_DIFF), `… ${rest} more lines`] : all;
}

export function createTerminalChat(terminal: Terminal) {
  const { paint, columns } = terminal;
  const screen = createScreen(terminal.write);
  const flow = createTextFlow(columns, paint);
  const figures: StatusFigures = {
    directive: '',
    model: '',
    status: 'completed',
    doing: '',
    turns: 0,
    spend: '',
    labels: new Set(),
  };
  let session: ChatSession | undefined;
  let editor: ReturnType<typeof createEditor> | undefined;
  let [isPaused, frame, streamed] = [false, 0, false];
  /** Calls under way, and those of them that a person was asked about. */
  const calls = new Map<string, Extract<Noted, { type: 'tool_call' }>>();
  const requests = new Set<string>();

  const print = (text: string): void => screen.print(text);
  const say = (text: string): void => print(paint('dim', visible(text)));
  const complain = ({ error: { detail } }: Failure): void =>
    print(`${paint('red', '✗')} ${visible(detail.message)}`);
  const flush = (): void => {
    for (const row of flow.end()) print(row);
  };

  function draw(): void {
    if (isPaused || !editor) return;
    const width = columns();
    const { rows, cursor, hint } = editor.view(width, Math.max(3, Math.floor(terminal.rows() / 3)));
    const tail = flow.tail();
    const wheel = session?.isWorking()
      ? `${paint('blue', WHEEL.charAt(frame % WHEEL.length))} `
      : '';
    const top = [...(tail === '' ? [] : [tail]), paint('dim', '─'.repeat(width - 1))];
    const lines = [
      ...top,
      ...rows.map((row, at) => `${at === 0 ? paint('bold', '› ') : '  '}${row}`),
      hint === '' ? `${wheel}${statusLine(figures, width - 2, paint)}` : fit(hint, width - 1),
    ];
    screen.draw(lines, { row: cursor.row + top.length, column: cursor.column + 2 });
  }

  let read: ReturnType<typeof createFigures> | undefined;
  async function refresh(): Promise<void> {
    const id = session?.id();
    const row = id === undefined ? undefined : await session?.store.thread(id);
    if (!row?.ok || !session) return;
    const { cost, limits, status } = row.output;
    read ??= createFigures(session.runtime.library);
    const { used, size, spent, currency } = await read(row.output, figures.model);
    const max = plainText(getOwn(limits.spend, 'value') ?? '');
    Object.assign(figures, {
      status: session.isWorking() ? 'running' : status,
      turns: Number(cost.turns ?? 0),
      spend: `${spent < 1 ? spent.toFixed(3) : spent.toFixed(2)} of ${max} ${currency}`,
      ...(size > 0 && { context: Math.round((100 * used) / size) }),
    });
    draw();
  }
  function carry(marks: Json | undefined): void {
    const carried = ['untrusted', 'secret'].filter((label) =>
      listAt(marks, 'taint').includes(label),
    );
    figures.labels = new Set([...figures.labels, ...carried]);
  }

  const live = {
    onText(thread: string, piece: string): void {
      if (thread !== session?.id()) return;
      if (!streamed) print('');
      [streamed, figures.doing] = [true, 'writes'];
      const rows = flow.push(piece);
      if (rows.length > 0) print(rows.join('\n'));
      draw();
    },
    onEvent(thread: string, event: Noted): void {
      session?.hear(thread, event);
      if (thread !== session?.id()) return;
      const { turn } = eventFlags(event.type);
      if (turn === 'begins') {
        [figures.model, figures.doing] = [plainText(getOwn(event.data, 'model') ?? ''), 'thinks'];
      }
      // The events before the start of a thread are not sent.
      if (getOwn(event.data, 'kind') === 'start') void readTalk();
      carry(getOwn(event.data, 'marks'));
      if (event.type === 'assistant_message') {
        if (!streamed && !event.data.injected)
          for (const row of flow.push(replyText(event.data.content))) print(row);
        flush();
        streamed = false;
      }
      tell(event);
      if (turn === 'ends') void refresh();
      draw();
    },
  };
  /** True for an event that the person sees otherwise: as the text, the prompt, or the effect of their own signal. */
  function isSilent({ type, data }: Noted): boolean {
    const { isFrame, isMessage } = eventFlags(type);
    const [kind, state] = [getOwn(data, 'kind'), getOwn(data, 'state')];
    const isAnswer = kind === 'call' ? state === 'pending' || state === 'used' : QUIET.has(kind);
    const isOwnLine = isMessage === true && getOwn(data, 'by') !== 'harness';
    return isFrame === true || isOwnLine || isAnswer || getOwn(data, 'code') === 'cancelled';
  }
  /** Prints the line of an event, and the change of a file. */
  function tell(event: Noted): void {
    const { type, data } = event;
    // A call that was asked about is made again after the answer.
    const isAgain = type === 'tool_call' && calls.has(data.call_id);
    if (type === 'tool_call') {
      calls.set(data.call_id, event);
      figures.doing = data.tool;
    }
    if ('approval' in data) requests.add(plainText(getOwn(data, 'call_id') ?? ''));
    const line = isAgain || isSilent(event) ? undefined : toldOf(event);
    if (line) {
      flush();
      print(`${paint(line.colour, line.mark)} ${visible(shorten(line.text, 300))}`);
    }
    if (type !== 'tool_result') return;
    const call = calls.get(data.call_id);
    calls.delete(data.call_id);
    if (call && !data.is_error && !requests.has(data.call_id)) {
      const change = changeLines(call).map((row) => `  ${fit(visible(row), columns() - 3)}`);
      if (change.length > 0) print(paintDiff(change.join('\n'), paint));
    }
  }

  const drawn: Drawn = {
    pause() {
      flush();
      isPaused = true;
      screen.pause();
    },
    resume() {
      isPaused = false;
      process.stdin.setRawMode(true);
      process.stdin.resume();
      screen.resume();
      draw();
    },
  };

  /** Reads the conversation of the thread and its labels. */
  async function readTalk() {
    const id = session?.id();
    const read = id === undefined ? undefined : await session?.store.read(id);
    const events = read?.ok ? decodeAll(read.output) : read;
    if (!events?.ok) return undefined;
    const talk = project(conversation, events.output);
    const { taint } = talk.marks();
    figures.labels = new Set(taint.filter((one) => one === 'untrusted' || one === 'secret'));
    const turn = events.output.findLast(({ type }) => eventFlags(type).turn === 'begins');
    figures.model = plainText(getOwn(turn?.data, 'model') ?? figures.model);
    return talk;
  }

  /** Shows where an opened thread stands: its labels and its last words. */
  async function opened(): Promise<void> {
    const talk = await readTalk();
    if (!talk) return;
    // The harness wrote the first message.
    for (const { role, content } of talk.messages().slice(1).slice(-4)) {
      const text = content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
      if (text === '') continue;
      if (role === 'user') print(paint('bold', `› ${visible(shorten(text, 300))}`));
      else for (const row of [...flow.push(text), ...flow.end()]) print(row);
    }
    await refresh();
  }

  return {
    live,
    /** Runs the conversation until the person leaves. Returns the exit code. */
    async run(talk: ChatSession, first: ChatLine | undefined): Promise<number> {
      session = talk;
      const { runtime } = talk;
      const secrets = environmentSecrets(terminal.env, runtime.library);
      const history = openHistory(runtime.project, (line) =>
        secrets.some((one) => line.includes(one)),
      );
      const typing = createEditor({
        history: history.entries,
        complete: (before) => completeIn(runtime.project, before),
      });
      editor = typing;
      figures.directive = talk.directive.replace(/^.*[:/]/, '');
      const over = Promise.withResolvers<void>();
      const waiting: ChatLine[] = [];
      let files: Attachment[] = [];
      let lastPress = 0;
      let work: Promise<void> = Promise.resolve();

      async function round(line?: ChatLine): Promise<void> {
        figures.status = 'running';
        const done = await talk.round(line);
        flush();
        figures.doing = '';
        calls.clear();
        if (!done.ok) complain(done);
        else if (done.output.status !== 'completed') {
          const { status, reason: why } = done.output;
          const reason = status === 'interrupted' ? '' : why;
          print(
            `${paint(statusColour(status), '●')} ${visible(`${status}${reason && `: ${reason}`}`)}`,
          );
        }
        await refresh();
        draw();
        // A line that came too late for the last turn begins the next round.
        const next = waiting.shift();
        if (next) begin(next);
      }
      const begin = (line?: ChatLine): void => {
        work = round(line);
        draw();
      };
      async function send(line: ChatLine): Promise<void> {
        print(`\n${paint('bold', `› ${visible(line.text).replaceAll('\n', '\n  ')}`)}`);
        if (!talk.isWorking()) begin(line);
        else if (line.attach?.length || !(await talk.inject(line))) waiting.push(line);
      }
      const ui: ChatUi = {
        session: talk,
        say,
        quit: () => over.resolve(),
        own: () => typing.own(),
        attach: (path) => void files.push({ path }),
        opened,
        resume: () => begin(),
      };
      async function submit(): Promise<void> {
        const text = typing.text();
        if (text.trim() === '') return;
        // `/own` at the end of a line is about its paste. The line stays, to be sent.
        const isOwn = /\s\/own\s*$/.test(text) || text.trim() === '/own';
        if (isOwn && typing.own()) return typing.replace(text.replace(/\s*\/own\s*$/, ''));
        const read = readTyped(ui, text);
        if (!read.ok) return complain(read);
        const { text: words, attach } = typing.take();
        history.add(words);
        if (read.output.command) {
          print(paint('bold', `› ${visible(words)}`));
          const done = await read.output.command();
          if (!done.ok) complain(done);
          return;
        }
        const all = [...files, ...read.output.files, ...attach];
        files = [];
        await send({ text: words, ...(all.length > 0 && { attach: all }) });
      }

      let paste: string | undefined;
      function press(text: string | undefined, key: Key): void {
        const { name, ctrl, sequence = '' } = key;
        if (name === 'paste-start') paste = '';
        else if (name === 'paste-end') {
          if (!typing.paste(paste ?? ''))
            say('the paste is longer than 1 MB; save it to a file and attach it with @');
          paste = undefined;
        } else if (paste !== undefined) paste += text ?? sequence;
        else if (name === 'escape') void talk.interrupt();
        else if (ctrl && name === 'c') {
          const isSecond = Date.now() - lastPress < LEAVE_MS;
          lastPress = Date.now();
          if (isSecond) over.resolve();
          else if (talk.isWorking()) void talk.interrupt();
          else if (typing.isEmpty()) say('press Ctrl-C again to leave');
          else typing.clear();
        } else if (ctrl && name === 'd' && typing.isEmpty()) over.resolve();
        else if (typing.key(text, key)) void submit().then(draw);
      }
      const onKey = (text: string | undefined, key: Key): void => {
        if (isPaused) return;
        press(text, key);
        if (paste === undefined) draw();
      };
      const resize = (): void => {
        screen.resized(columns());
        draw();
      };
      const leave = (): void => over.resolve();
      const timer = setInterval(() => {
        frame += 1;
        if (talk.isWorking()) draw();
      }, REDRAW_MS);
      const { stdin, stderr } = process;
      const restore = (): void => {
        if (!stdin.destroyed) stdin.setRawMode(false);
        terminal.write(PASTE_OFF);
      };
      emitKeypressEvents(
        stdin,
        Object.assign(Object.create(Interface.prototype), { escapeCodeTimeout: ESCAPE_MS }),
      );
      stdin.on('keypress', onKey).once('end', leave).once('close', leave);
      stderr.on('resize', resize);
      process.once('exit', restore);
      terminal.drawn.add(drawn);
      terminal.write(PASTE_ON);
      stdin.setRawMode(true);
      stdin.resume();
      try {
        const isResumed = talk.id() !== undefined;
        if (isResumed) await opened();
        draw();
        if (first) await send(first);
        else if (isResumed && figures.status === 'waiting') begin();
        await over.promise;
        if (talk.isWorking()) await talk.interrupt();
        await work;
      } finally {
        clearInterval(timer);
        stdin.off('keypress', onKey).off('end', leave).off('close', leave);
        stderr.off('resize', resize);
        terminal.drawn.delete(drawn);
        screen.close();
        process.off('exit', restore);
        restore();
        stdin.pause();
      }
      const id = talk.id();
      if (id !== undefined) terminal.note(paint('dim', `km chat --resume ${id}`));
      return EXIT.done;
    },
  };
}
