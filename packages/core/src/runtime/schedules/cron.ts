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

const evaluate = (cron: string, timezone: string): Cron =>
  new Cron(cron, { timezone, mode: cron.startsWith('@') ? 'auto' : '5-part', paused: true });

export function readCron(cron: string, zone: string): Outcome<Ticks> {
  const checked = checkPattern(cron);
  const timezone = checked.ok ? readZone(zone) : checked;
  if (!timezone.ok) return timezone;
  const pattern = evaluate(cron, timezone.output);
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
const isSingle = (cron: string): boolean =>
  cron.startsWith('@') ? cron !== '@hourly' : /^\d+\s+\d+\s/.test(cron.trim());

/**
 * Returns a sentence for each kind of clock change within a year that changes the number of ticks of a day. A
 * pattern with one minute and one hour always has one tick a day.
 */
export function clockChanges(cron: string, timeZone: string, from: number): string[] {
  if (isSingle(cron)) return [];
  const format = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' });
  const offset = (time: number): number => {
    const name = format.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value;
    const [, sign = '+', hours = 0, minutes = 0] = /([+-])(\d+):(\d+)/.exec(name ?? '') ?? [];
    return Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000;
  };
  const wall = evaluate(cron, 'UTC');
  const found = new Map<string, string>();
  for (let day = from; day < from + 366 * DAY_MS; day += DAY_MS) {
    let [low, high] = [day, day + DAY_MS];
    const [before, later] = [offset(low), offset(high)];
    if (before === later) continue;
    while (high - low > 1000) {
      const middle = (low + high) / 2;
      if (offset(middle) === before) low = middle;
      else high = middle;
    }
    const change = Math.round(high / 60_000) * 60_000;
    const start = change + Math.min(before, later);
    const end = change + Math.max(before, later);
    const tick = wall.nextRun(new Date(start - SECOND_MS))?.getTime() ?? end;
    if (tick >= end) continue;
    const [date, first] = new Date(start).toISOString().split('T');
    const times = `${first?.slice(0, 5)} to ${new Date(end).toISOString().slice(11, 16)}`;
    const [verb, effect] = later > before ? ['skips', 'are left out'] : ['repeats', 'run twice'];
    const text = `on ${date} the clock of ${timeZone} ${verb} ${times}; ticks in that time ${effect}`;
    if (!found.has(verb)) found.set(verb, text);
  }
  return [...found.values()];
}
