// Measures a pass of a server over many schedules of which none is due, which it makes every two seconds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@kernmantle/core/base';
import { type AuditEntry, openSqliteStore } from '@kernmantle/core/store';
import { fireDue, type ScheduleHost } from '../packages/core/src/runtime/schedules/fire-due.ts';
import { type BenchRow, race } from './row.ts';

const [COUNT, LIMIT_MS, HOUR_MS] = [5000, 20, 3_600_000];
const AUDIT: AuditEntry = {
  surface: 'cli',
  caller: 'ada',
  subject: 'person',
  operation: 'schedule add',
  target: 's',
  decision: 'allowed',
  reason: '',
};

export async function bench(): Promise<BenchRow[]> {
  const dir = mkdtempSync(join(tmpdir(), 'km-bench-schedules-'));
  const opened = await openSqliteStore({ file: join(dir, 'registry.db'), clock: systemClock });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  const store = opened.output;
  const state = { waiting: null, last: null, outcome: null, paused: null, refused: 0 };
  const own = { tenant: '', project: 'p', body: '{}', signature: 's', stamp: '', open: [] };
  await Promise.all(
    Array.from({ length: COUNT }, (_, at) => {
      const next = Date.now() + HOUR_MS + at;
      const row = { ...own, ...state, id: `sch_${at}`, name: `s${at}`, next };
      return store.fire({ row, set: {}, audit: AUDIT });
    }),
  );
  const host = { threads: { store }, project: 'p' } as unknown as ScheduleHost;
  const all = Array.from({ length: COUNT }, (_, at) => Date.now() + at);
  const best = await race({
    ours: async () => {
      for (let pass = 0; pass < 50; pass++) await fireDue(host, '', () => {});
    },
    scan: () => {
      for (let pass = 0; pass < 50; pass++) all.filter((next) => next < 0);
    },
  });
  await store.close();
  rmSync(dir, { recursive: true, force: true });
  const [ours = 0, base = 0] = [best.ours, best.scan].map((us = 0) => us / 1000 / 50);
  const target = `under ${LIMIT_MS} ms`;
  const name = `pass over ${COUNT} schedules`;
  return [{ name, ours, base, ratio: ours / base, unit: 'ms', target, ok: ours < LIMIT_MS }];
}
