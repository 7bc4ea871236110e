import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clockChanges, readCron, readZone, type Ticks } from './cron.ts';

const BERLIN = 'Europe/Berlin';
function read(cron: string, zone = BERLIN): Ticks {
  const ticks = readCron(cron, zone);
  if (!ticks.ok) throw new Error(ticks.error.detail.message);
  return ticks.output;
}
const iso = (times: readonly number[]) => times.map((time) => new Date(time).toISOString());
const on = (cron: string, day: string) =>
  iso(read(cron).between(Date.parse(`${day}T00:00Z`) - 3_600_000, Date.parse(`${day}T22:59Z`), 99));

const [SPRING, AUTUMN] = ['2027-03-28', '2027-10-31'];

test('one minute and one hour: a time in the gap runs right after it, a repeated one runs once', () => {
  expect(on('30 2 * * *', SPRING)).toEqual(['2027-03-28T01:00:00.000Z']);
  expect(on('30 2 * * *', AUTUMN)).toEqual(['2027-10-31T00:30:00.000Z']);
});

test('several minutes or hours: times in the gap are left out, repeated ones run twice', () => {
  expect(on('*/15 2 * * *', SPRING)).toEqual([]);
  const twice = on('*/15 2 * * *', AUTUMN);
  expect(twice).toHaveLength(8);
  expect(twice.at(4)).toBe('2027-10-31T01:00:00.000Z');
  expect(on('30 2,4 * * *', SPRING)).toEqual(['2027-03-28T02:30:00.000Z']);
  expect(on('30 2,4 * * *', AUTUMN)).toHaveLength(3);
});

test('a pattern that meets a clock change says so', () => {
  const from = Date.parse('2027-01-01');
  expect(clockChanges('30 2 * * *', BERLIN, from)).toEqual([]);
  expect(clockChanges('@daily', BERLIN, from)).toEqual([]);
  expect(clockChanges('*/15 2 * * *', BERLIN, from)).toEqual([
    'on 2027-03-28 the clock of Europe/Berlin changes; ticks left out: 4',
    'on 2027-10-31 the clock of Europe/Berlin changes; ticks repeated: 4',
  ]);
  expect(clockChanges('*/15 5 * * *', BERLIN, from)).toEqual([]);
  expect(clockChanges('* * * * *', 'UTC', from)).toEqual([]);
  expect(clockChanges('0,15,30 * * * *', 'Australia/Lord_Howe', from)).toEqual([
    'on 2027-04-04 the clock of Australia/Lord_Howe changes; ticks repeated: 1',
    'on 2027-10-03 the clock of Australia/Lord_Howe changes; ticks left out: 2',
  ]);
  for (const [zone, dates] of [
    ['America/New_York', ['2027-03-14', '2027-11-07']],
    ['Pacific/Auckland', ['2027-04-04', '2027-09-26']],
  ] as const) {
    const days = clockChanges('@hourly', zone, from).map((text) => text.slice(3, 13));
    expect(days).toEqual(dates);
  }
});

test.each([
  ['61 * * * *', 'the minute `61` must be'],
  ['* * * * * *', 'five fields'],
  ['0 0 30 2 *', 'no day matches it'],
  ['5/15 * * * *', 'the minute `5/15`'],
  ['* * 15W * *', 'the day of the month `15W`'],
  ['* * L * *', 'the day of the month `L`'],
  ['* * * * MON', 'the day of the week `MON`'],
  ['* * ? * *', 'the day of the month `?`'],
  ['5-1 * * * *', 'the minute `5-1`'],
  ['*/0 * * * *', 'the minute `*/0`'],
  ['*/60 * * * *', 'the minute `*/60`'],
  ['* * * * 1#2', 'the day of the week `1#2`'],
  ['@yearly', 'five fields'],
  ['', 'five fields'],
  ['2027-01-01T00:00:00', 'five fields'],
])('%s is refused', (cron, problem) => {
  const ticks = readCron(cron, BERLIN);
  expect(ticks).toMatchObject({ ok: false, error: { code: 'usage' } });
  expect(!ticks.ok && ticks.error.detail.message).toContain(problem);
});

test('a zone is written as the system writes it, and a wrong one names the nearest', () => {
  expect(readZone('europe/berlin')).toEqual({ ok: true, output: BERLIN });
  const wrong = readZone('Europe/Brelin');
  expect(!wrong.ok && wrong.error.detail.message).toContain('Europe/Berlin');
  expect(readZone('Mars/One')).toMatchObject({ ok: false, error: { code: 'usage' } });
  expect(readZone('+02:00').ok).toBe(false);
});

const field = (least: number, most: number): fc.Arbitrary<string> => {
  const number = fc.integer({ min: least, max: most });
  const range = fc.tuple(number, number).map((pair) => pair.toSorted((a, b) => a - b).join('-'));
  const step = fc.integer({ min: 1, max: most });
  const part = fc.oneof(
    fc.constant('*'),
    number.map(String),
    range,
    fc.tuple(fc.oneof(fc.constant('*'), range), step).map((pair) => pair.join('/')),
  );
  return fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(','));
};

/** Returns the values of a field, without croner. */
function valuesOf(text: string, least: number, most: number): Set<number> {
  const values = new Set<number>();
  for (const part of text.split(',')) {
    const [span = '', step = '1'] = part.split('/');
    const [from = least, to = span === '*' ? most : from] =
      span === '*' ? [] : span.split('-').map(Number);
    for (let value = from; value <= to; value += Number(step)) values.add(value);
  }
  return values;
}

test('every accepted pattern has exactly the ticks that its fields say', () => {
  fc.assert(
    fc.property(field(0, 59), field(0, 23), fc.integer({ min: 0, max: 1400 }), (m, h, days) => {
      const from = Date.UTC(2026, 0, 1 + days);
      const [minutes, hours] = [valuesOf(m, 0, 59), valuesOf(h, 0, 23)];
      const expected: number[] = [];
      for (let at = 0; at < 1440; at++) {
        if (minutes.has(at % 60) && hours.has(Math.floor(at / 60)))
          expected.push(from + at * 60_000);
      }
      const ticks = read(`${m} ${h} * * *`, 'UTC').between(from, from + 86_399_999, 2000);
      expect(ticks).toEqual(expected);
    }),
    { numRuns: 20 },
  );
});

test('of too many ticks the first and the last are returned', () => {
  const from = Date.UTC(2027, 0, 1);
  const ticks = read('* * * * *', 'UTC').between(from, from + 100 * 60_000 + 5, 3);
  expect(ticks.map((tick) => (tick - from) / 60_000)).toEqual([0, 1, 2, 100]);
});
