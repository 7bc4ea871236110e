// Evaluates cron patterns with croner, for every store. The accepted patterns are a small subset, which is checked
// before croner reads them: `*`, numbers, lists, ranges and steps in five fields. So a pattern has one meaning.
import { Cron } from 'croner';
import { fail, nearest, type Outcome, ok } from '../../base/index.ts';

export interface Ticks {
  /** Returns the first tick after a time, in milliseconds since 1970. Undefined: there is none. */
  after(time: number): number | undefined;
  /** Returns the ticks from `from` to `to`, oldest first. Of more than `most`, it returns the first and the last. */
  between(from: number, to: number, most: number): number[];
}

/** croner looks for runs before the second of a time. */
const SECOND_MS = 1000;
const NAMED = ['@hourly', '@daily', '@weekly', '@monthly'];
const FIELDS = [
  ['minute', 0, 59],
  ['hour', 0, 23],
  ['day of the month', 1, 31],
  ['month', 1, 12],
  ['day of the week', 0, 7],
] as const;
const PART = /^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,2}))?$/;

/** Returns why a field is not accepted. Undefined: it is. */
function fieldProblem(text: string, [name, least, most]: (typeof FIELDS)[number]) {
  for (const part of text.split(',')) {
    const [match, first, last, step] = PART.exec(part) ?? [];
    const [from, to] = [Number(first ?? least), Number(last ?? first ?? most)];
    const isStepped = step === undefined || (first === undefined) !== (last !== undefined);
    const inRange = from >= least && to <= most && from <= to;
    const isStep = step === undefined || (Number(step) >= 1 && Number(step) <= most);
    if (match === undefined || !inRange || !isStep || !isStepped) {
      return `the ${name} \`${part}\` must be \`*\`, a number or a range from ${least} to ${most}, or a step such as \`*/5\``;
    }
  }
  return undefined;
}

const wrongPattern = (cron: string, problem: string) =>
  fail('usage', `cron pattern \`${cron}\`: ${problem}`, { cron });

/** Fails with `usage` for a pattern outside of the subset. */
function checkPattern(cron: string): Outcome<null> {
  if (NAMED.includes(cron)) return ok(null);
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== FIELDS.length) {
    return wrongPattern(
      cron,
      `it must have five fields (minute to weekday), or be ${NAMED.join(' ')}`,
    );
  }
  const problem = FIELDS.map((field, at) => fieldProblem(fields[at] ?? '', field)).find(Boolean);
  return problem === undefined ? ok(null) : wrongPattern(cron, problem);
}

/** Returns the name of a time zone as the system writes it. Fails with `usage` and the nearest name. */
export function readZone(zone: string): Outcome<string> {
  const names = [...Intl.supportedValuesOf('timeZone'), 'UTC'];
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions();
    if (/^[A-Za-z]/.test(timeZone)) return ok(timeZone);
  } catch {
    // The system has no zone of this name.
  }
  const near = nearest(zone, names, zone.length) ?? 'UTC';
  return fail('usage', `time zone \`${zone}\` not found; did you mean \`${near}\``, { zone });
}

export function readCron(cron: string, zone: string): Outcome<Ticks> {
  const checked = checkPattern(cron);
  const timezone = checked.ok ? readZone(zone) : checked;
  if (!timezone.ok) return timezone;
  const mode = cron.startsWith('@') ? 'auto' : '5-part';
  const pattern = new Cron(cron, { timezone: timezone.output, mode, paused: true });
  const after = (time: number) => pattern.nextRun(new Date(time))?.getTime();
  if (after(Date.UTC(2000, 0)) === undefined) return wrongPattern(cron, 'no day matches it');
  return ok({
    after,
    between(from, to, most) {
      const ticks: number[] = [];
      for (let tick = after(from - 1); tick !== undefined && tick <= to; tick = after(tick)) {
        if (ticks.length < most) ticks.push(tick);
        else return [...ticks, ...pattern.previousRuns(1, new Date(to + SECOND_MS)).map(Number)];
      }
      return ticks;
    },
  });
}

const DAY_MS = 86_400_000;
const MAX_DAY_TICKS = 2000;
const isSingle = (cron: string): boolean =>
  cron.startsWith('@') ? cron !== '@hourly' : /^\d+\s+\d+\s/.test(cron.trim());

/**
 * Returns a sentence for each kind of clock change within a year that changes the number of ticks of a day. A
 * pattern with one minute and one hour always has one tick a day.
 */
export function clockChanges(cron: string, timeZone: string, from: number): string[] {
  const [ticks, wall] = [readCron(cron, timeZone), readCron(cron, 'UTC')];
  if (isSingle(cron) || !ticks.ok || !wall.ok) return [];
  // Swedish dates and times are in ISO format.
  const local = new Intl.DateTimeFormat('sv', {
    timeZone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  const wallTime = (time: number): number => Date.parse(`${local.format(time)}Z`);
  const found = new Map<string, string>();
  // Each step is from noon to noon, because clocks change at night.
  const noon = Math.floor(from / DAY_MS) * DAY_MS + DAY_MS / 2;
  const first = noon - (wallTime(noon) - noon);
  for (let start = first; start < first + 366 * DAY_MS; start += DAY_MS) {
    const end = start + DAY_MS;
    if (wallTime(end) - wallTime(start) === DAY_MS) continue;
    const fired = ticks.output.between(start, end - 1, MAX_DAY_TICKS).length;
    const due = wall.output.between(wallTime(start), wallTime(end) - 1, MAX_DAY_TICKS).length;
    const [count, effect] = due > fired ? [due - fired, 'left out'] : [fired - due, 'repeated'];
    const [date] = local.format(end).split(' ');
    const text = `on ${date} the clock of ${timeZone} changes; ticks ${effect}: ${count}`;
    if (count > 0 && !found.has(effect)) found.set(effect, text);
  }
  return [...found.values()];
}
