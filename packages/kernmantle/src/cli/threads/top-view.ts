// Formats all threads as lines: threads that wait for a person, running threads and recently ended threads, in
// this order, as the page lists them.
import { plainText } from '@kernmantle/core/base';
import { isEnded, type ThreadStatus } from '@kernmantle/core/store';
import { isUnserved, type ListedRun, NO_WORKER, workerName } from '@kernmantle/web';
import { type Paint, visible } from '../terminal/terminal.ts';
import { bar, barColour } from './figure-lines.ts';
import { age, column, count, fit, statusColour } from './status-text.ts';

/** One line of the list: a thread and its depth in the tree. */
interface TopRow {
  readonly run: ListedRun;
  readonly depth: number;
}

interface TopGroup {
  readonly title: string;
  readonly rows: readonly TopRow[];
}

export const isOver = ({ status }: ListedRun): boolean => isEnded(status as ThreadStatus);
const waitsForPerson = ({ due, status }: ListedRun): boolean => due > 0 || status === 'needs_input';

/** Groups the trees of threads, newest first. The most urgent thread of a tree selects its group. */
export function topGroups(runs: readonly ListedRun[]): TopGroup[] {
  const threads = runs.filter(({ kind }) => kind === 'thread');
  const ids = new Set(threads.map(({ id }) => id));
  const below = Map.groupBy(threads, ({ parent }) =>
    parent !== undefined && ids.has(parent) ? parent : '',
  );
  const treeOf = (run: ListedRun, depth: number): TopRow[] => [
    { run, depth },
    ...(below.get(run.id) ?? [])
      .toSorted((a, b) => a.created - b.created)
      .flatMap((child) => treeOf(child, depth + 1)),
  ];
  const roots = (below.get('') ?? []).toSorted((a, b) => b.created - a.created);
  const placed = Map.groupBy<string, TopRow[]>(
    roots.map((root) => treeOf(root, 0)),
    (tree) => {
      if (tree.some(({ run }) => waitsForPerson(run))) return 'waits for you';
      return tree.some(({ run }) => !isOver(run)) ? 'at work' : 'ended lately';
    },
  );
  return ['waits for you', 'at work', 'ended lately'].flatMap((title) => {
    const rows = (placed.get(title) ?? []).flat();
    return rows.length === 0 ? [] : [{ title, rows }];
  });
}

const MARKS: Readonly<Record<string, string>> = {
  completed: '✓',
  running: '●',
  spawning: '●',
  terminating: '●',
  paused: '‖',
  interrupted: '‖',
  waiting: '‖',
  terminated: '‖',
  limit: '■',
};

/** Number of cells of each part of a line. A narrow line omits the last parts first. */
interface Layout {
  readonly name: number;
  readonly turns: number;
  readonly spend: number;
  /** Cells of each bar. 0: the line has no bars. */
  readonly bars: number;
  readonly denied: number;
  readonly age: number;
  /** Cells for the current step: the rest of the line. */
  readonly now: number;
}

const STATUS = 11;
const FIGURES = { turns: 11, spend: 15, denied: 10, age: 6 };
const SHORTEST_NAME = 14;
const LONGEST_NAME = 44;
const BARS = 8;
/** Cells of all parts except the name, without and with bars. */
const WITHOUT_BARS = 56;
const WITH_BARS = 76;
const NAME_BESIDE_BARS = 22;

function layoutOf(width: number, longest: number, most: number): Layout {
  let rest = width - 2 - STATUS - 1;
  // Bars are more useful than the end of a name. If they do not fit, the name gets their cells.
  const room = rest - WITH_BARS >= NAME_BESIDE_BARS ? rest - WITH_BARS : rest - WITHOUT_BARS;
  const desired = Math.min(longest, most);
  const name =
    most > LONGEST_NAME
      ? desired
      : Math.max(1, Math.min(desired, Math.max(SHORTEST_NAME, room), rest));
  rest -= name + 1;
  const take = (cells: number): number => {
    if (rest < cells + 1) return 0;
    rest -= cells + 1;
    return cells;
  };
  const [aged, turns, denied, spend] = [
    take(FIGURES.age),
    take(FIGURES.turns),
    take(FIGURES.denied),
    take(FIGURES.spend),
  ];
  const bars = spend > 0 && rest >= 2 * (BARS + 1) + 8 ? BARS : 0;
  rest -= bars > 0 ? 2 * (bars + 1) : 0;
  return { name, turns, spend, bars, denied, age: aged, now: Math.max(0, rest) };
}

function meterOf(run: ListedRun, name: string) {
  const { used = 0, max } = run.meters.find((meter) => meter.name === name) ?? {};
  return { used, max, share: max === undefined || max === 0 ? 0 : used / max };
}

function barOf({ max, share }: ReturnType<typeof meterOf>, cells: number, paint: Paint): string {
  if (max === undefined) return ' '.repeat(cells);
  const full = bar(share, cells);
  return `${paint(barColour(share), full)}${paint('dim', '·'.repeat(cells - full.length))}`;
}

const money = (value: number): string => value.toFixed(value < 1 ? 4 : 2);

function turnsText(run: ListedRun): string {
  const { max } = meterOf(run, 'turns');
  const used = count(run.cost.turns);
  const word = used === '1' ? 'turn' : 'turns';
  return max === undefined || isOver(run) ? `${used} ${word}` : `turn ${used}/${count(max)}`;
}

function spendText(run: ListedRun): string {
  const { max } = meterOf(run, 'spend');
  const about = run.cost.estimated === true ? '~' : '';
  const used = `${about}${money(Number(plainText(run.cost.spend ?? '0')) || 0)}`;
  return max === undefined || isOver(run) ? used : `${used}/${max}`;
}

/** Shows the current step, the open question or the reason of the end, then the title. */
function nowText(run: ListedRun, unserved: ReadonlySet<string>): string {
  if (isUnserved(run, unserved)) return NO_WORKER;
  const due = run.due > 1 ? `${run.due} questions, ` : '';
  const what = isOver(run) ? (run.reason ?? '') : (run.now ?? '');
  const where = run.worker === undefined ? '' : ` on ${workerName(run.worker)}`;
  const step = `${due}${what}${where}`.trim();
  const parts = [step, run.title ?? ''].filter((part) => part !== '');
  return visible(parts.join(' · ').replace(/\s+/g, ' '));
}

function lineOf(
  { run, depth }: TopRow,
  layout: Layout,
  { now, unserved = NONE }: TopTime,
  paint: Paint,
): string {
  const colour = waitsForPerson(run) ? 'yellow' : statusColour(run.status);
  const mark = waitsForPerson(run) ? '◆' : (MARKS[run.status] ?? '⊘');
  const branch = depth === 0 ? '' : `${'  '.repeat(Math.min(depth, 6) - 1)}└ `;
  const cells: string[] = [
    `${paint(colour, mark)} ${column(`${branch}${visible(run.id)}`, layout.name)}`,
    paint(colour, column(run.status, STATUS)),
  ];
  if (layout.turns > 0) cells.push(column(turnsText(run), layout.turns));
  if (layout.bars > 0) cells.push(barOf(meterOf(run, 'turns'), layout.bars, paint));
  if (layout.spend > 0) cells.push(column(spendText(run), layout.spend));
  if (layout.bars > 0) cells.push(barOf(meterOf(run, 'spend'), layout.bars, paint));
  if (layout.denied > 0) {
    const failed = run.failed > 0 ? `${count(run.failed)} failed` : '';
    const denied = run.denied > 0 ? `${count(run.denied)} denied` : failed;
    cells.push(paint('red', column(denied, layout.denied)));
  }
  if (layout.age > 0)
    cells.push(column(age((run.ended ?? now) - run.created), layout.age, 'right'));
  if (layout.now > 0) cells.push(fit(nowText(run, unserved), layout.now));
  return cells.join(' ');
}

/** Returns the next useful command for a thread. It contains the whole id, which a narrow list cuts. */
export const commandFor = (run: ListedRun): string =>
  waitsForPerson(run)
    ? `answer it with km approvals ls --thread ${visible(run.id)}`
    : `km threads show ${visible(run.id)}`;

const NONE: ReadonlySet<string> = new Set();

/** Time and queues that a drawing shows. */
interface TopTime {
  readonly now: number;
  /** Keys of the queues without a worker. */
  readonly unserved?: ReadonlySet<string>;
}

interface TopSize {
  readonly width: number;
  /** Maximum number of lines of all groups. */
  readonly height: number;
  /** Maximum number of cells of a name. Longer names are cut. */
  readonly name?: number;
}

/** Returns the visible lines of all groups. They always contain the selected row, which has a mark. */
export function topLines(
  groups: readonly TopGroup[],
  { width, height, name = LONGEST_NAME }: TopSize,
  time: TopTime,
  paint: Paint,
  selected?: string,
): string[] {
  const rows = groups.flatMap((group) => group.rows);
  const longest = Math.max(
    SHORTEST_NAME,
    ...rows.map(({ run, depth }) => run.id.length + Math.min(depth, 6) * 2),
  );
  const layout = layoutOf(width - 2, longest, name);
  const lines: { text: string; id?: string }[] = groups.flatMap(({ title, rows: list }) => [
    { text: paint('bold', fit(`${title} ${list.length}`, width)) },
    ...list.map((row) => ({ text: lineOf(row, layout, time, paint), id: row.run.id })),
  ]);
  const at = Math.max(
    0,
    lines.findIndex(({ id }) => id !== undefined && id === selected),
  );
  const first = Math.min(
    Math.max(0, at - Math.floor(height / 2)),
    Math.max(0, lines.length - height),
  );
  return lines.slice(first, first + height).map(({ text, id }) => {
    if (id === undefined) return text;
    return `${id === selected ? paint('blue', '›') : ' '} ${text}`;
  });
}

/** Returns one line with the numbers of threads by state and the cost of those that have not ended. */
export function topHead(groups: readonly TopGroup[], width: number, paint: Paint): string {
  const rows = groups.flatMap((group) => group.rows.map(({ run }) => run));
  const alive = rows.filter((run) => !isOver(run));
  const spend = alive
    .filter(({ depth }) => depth === 0)
    .reduce((sum, run) => sum + (Number(plainText(run.cost.spend ?? '0')) || 0), 0);
  const due = alive.reduce((sum, run) => sum + run.due, 0);
  const running = alive.filter(({ status }) => status === 'running').length;
  const words = [
    `${running} running`,
    `${alive.length - running} waiting`,
    `${due} for you`,
    `${money(spend)} spent by them`,
  ];
  return paint('bold', fit(words.join(', '), width));
}
