// The fleet as a screen: workers, queues and who holds what, as the page shows them. Pure: what was seen and
// a size in, lines out. Names come from other machines, so nothing of them reaches the terminal unseen.
import {
  clockWords,
  type FleetState,
  fleetSums,
  NO_WORKER,
  projectWords,
  servesWords,
  shortItems,
  waitWords,
  workerMood,
  workerName,
} from '@kernmantle/web';
import { type Colour, type Paint, visible } from '../terminal/terminal.ts';
import { age, column, count, fit, statusColour } from './status-text.ts';

const MOODS: Readonly<Record<string, readonly [mark: string, colour: Colour]>> = {
  'at work': ['●', 'blue'],
  free: ['✓', 'green'],
  draining: ['‖', 'yellow'],
  silent: ['◆', 'yellow'],
  gone: ['⊘', 'red'],
};
const MB = 1e6;
const SHORTEST = 16;
const LONGEST = 30;

const plural = (value: number, word: string): string =>
  `${count(value)} ${word}${value === 1 ? '' : 's'}`;

/** In one line: how many work, how much waits, and for how much there is nobody. */
export function fleetHead(fleet: FleetState, width: number, paint: Paint): string {
  const { workers, gone, slots, busy, queued, unserved } = fleetSums(fleet);
  const words = [
    plural(workers, 'worker'),
    ...(gone > 0 ? [`${count(gone)} gone`] : []),
    `${count(busy)} of ${count(slots)} slots busy`,
    `${count(queued)} queued`,
    ...(unserved > 0 ? [`${count(unserved)} served by nobody`] : []),
  ];
  const isBad = gone + unserved > 0 || workers === 0;
  return paint(isBad ? 'yellow' : 'dim', fit(words.join(', '), width));
}

/** Cells of the first column, where others have to find room as well. */
const nameCells = (names: readonly string[], width: number): number =>
  Math.min(
    Math.max(SHORTEST, ...names.map((name) => name.length)),
    Math.max(SHORTEST, Math.min(LONGEST, Math.floor(width * 0.3))),
  );

function workerLines(fleet: FleetState, clock: number, width: number, paint: Paint): string[] {
  const named = fleet.workers.map((worker) => ({ worker, name: visible(workerName(worker.id)) }));
  const cells = nameCells(
    named.map(({ name }) => name),
    width,
  );
  return named.map(({ worker, name }) => {
    const [mood] = workerMood(worker, clock);
    const [mark, colour] = MOODS[mood] ?? ['·', 'dim'];
    const off = clockWords(worker);
    const line = [
      column(name, cells),
      column(mood, 8),
      column(worker.gone ? '' : `${count(worker.busy)}/${count(worker.slots)} busy`, 12),
      column(`${count(worker.memory / MB)} MB`, 8, 'right'),
      column(`${age(clock - worker.heard)} ago`, 9, 'right'),
      ...(off === '' ? [] : [`clock ${off},`]),
      `serves ${visible(servesWords(worker, fleet.own))}`,
    ].join(' ');
    return `${paint(colour, mark)} ${fit(line, width - 2)}`;
  });
}

function queueLines(fleet: FleetState, clock: number, width: number, paint: Paint): string[] {
  return fleet.queues.map((queue) => {
    const { tenant, project, items, served_by } = queue;
    const name = projectWords(project, items, fleet.own);
    const line = [
      name.includes(shortItems(items)) ? name : `${name} (${shortItems(items)})`,
      ...(tenant === '' ? [] : [`tenant ${tenant}`]),
      waitWords(queue, clock),
      served_by > 0 ? `${plural(served_by, 'worker')} serve it` : NO_WORKER,
    ].join('; ');
    const mark = served_by > 0 ? paint('dim', '·') : paint('yellow', '!');
    return `${mark} ${fit(visible(line), width - 2)}`;
  });
}

function heldLines({ held }: FleetState, clock: number, width: number, paint: Paint): string[] {
  const cells = nameCells(
    held.map(({ thread }) => thread),
    width,
  );
  return held.map(({ thread, status, worker, lease_until }) => {
    const left = lease_until - clock;
    const line = [
      column(visible(thread), cells),
      column(status, 11),
      column(left > 0 ? `${age(left)} left` : 'lease over', 10),
      visible(workerName(worker)),
    ].join(' ');
    return `${paint(statusColour(status), '●')} ${fit(line, width - 2)}`;
  });
}

/** Three parts, each with its title; what does not fit is left out at the end. */
export function fleetLines(
  fleet: FleetState,
  { width, height }: { width: number; height: number },
  clock: number,
  paint: Paint,
): string[] {
  const parts = [
    ['workers', workerLines(fleet, clock, width, paint), 'none was heard of: start `km worker`'],
    ['queues', queueLines(fleet, clock, width, paint), 'nothing is queued'],
    ['who holds what', heldLines(fleet, clock, width, paint), 'nothing is held'],
  ] as const;
  const lines = parts.flatMap(([title, list, empty]) => [
    paint('bold', fit(`${title} ${count(list.length)}`, width)),
    ...(list.length > 0 ? list : [paint('dim', fit(`  ${empty}`, width))]),
  ]);
  return lines.slice(0, Math.max(0, height));
}
