// Formats the state of the fleet as lines: workers, queues and leases, as the page shows them. Names come from
// other machines, so their control characters are made visible.
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

/** Returns one line with the numbers of workers, queued threads and queued threads without a worker. */
export function fleetHead(fleet: FleetState, width: number, paint: Paint): string {
  const { workers, gone, slots, busy, queued, unserved } = fleetSums(fleet);
  const words = [
    plural(workers, 'worker'),
    ...(gone > 0 ? [`${count(gone)} gone`] : []),
    `${count(busy)} of ${count(slots)} slots busy`,
    `${count(queued)} queued`,
    ...(unserved > 0 ? [`${count(unserved)} without a worker`] : []),
  ];
  const isBad = gone + unserved > 0 || workers === 0;
  return paint(isBad ? 'yellow' : 'dim', fit(words.join(', '), width));
}

/** Returns the width of the first column, which leaves cells for the other columns. */
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
      column(`${age(clock - worker.heartbeat)} ago`, 9, 'right'),
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
    const remaining = lease_until - clock;
    const line = [
      column(visible(thread), cells),
      column(status, 11),
      column(remaining > 0 ? `${age(remaining)} left` : 'expired', 10),
      visible(workerName(worker)),
    ].join(' ');
    return `${paint(statusColour(status), '●')} ${fit(line, width - 2)}`;
  });
}

/** Returns three parts, each with its title. Lines beyond `height` are cut. */
export function fleetLines(
  fleet: FleetState,
  { width, height }: { width: number; height: number },
  clock: number,
  paint: Paint,
): string[] {
  const parts = [
    ['workers', workerLines(fleet, clock, width, paint), 'no worker runs; start `km worker`'],
    ['queues', queueLines(fleet, clock, width, paint), 'nothing is queued'],
    ['leases', heldLines(fleet, clock, width, paint), 'no thread has a lease'],
  ] as const;
  const lines = parts.flatMap(([title, list, empty]) => [
    paint('bold', fit(`${title} ${count(list.length)}`, width)),
    ...(list.length > 0 ? list : [paint('dim', fit(`  ${empty}`, width))]),
  ]);
  return lines.slice(0, Math.max(0, height));
}
