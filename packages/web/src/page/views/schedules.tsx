// Schedules of the project: next tick, last outcome and spend of the day. They are added at the command line, with
// the key of a person.
import { useState } from 'preact/hooks';
import type { ScheduleList, ShownSchedule } from '../../model/api.ts';
import { dayTime, money } from '../../model/format.ts';
import { type PageFault, post } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Table, type TableRow } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';

const COLUMNS = 'schedule,state,next,last,outcome,spent today,pattern,acts'.split(',');
const TONES = { active: 'ok', paused: 'you', broken: 'bad' } as const;
const ADD = 'km schedule add NAME DIRECTIVE --cron "15 3 * * *"';
const timeOf = (text: string | undefined) => (text === undefined ? '–' : dayTime(Date.parse(text)));

function scheduleRow(schedule: ShownSchedule, act: (verb: string) => void): TableRow {
  const { name, state, reason, next, last, outcome, spent_today, spend_per_day } = schedule;
  const { directive = '', cron = '', tz = '' } = schedule;
  const limit = spend_per_day === undefined ? '' : ` of ${money(spend_per_day)}`;
  return {
    key: schedule.id,
    cells: [
      <span>
        <b>
          <ForeignText text={name} />
        </b>{' '}
        <ForeignText text={directive} class="dim" />
      </span>,
      <span class={TONES[state]}>
        {state} <ForeignText text={reason} class="faint" />
      </span>,
      state === 'active' ? timeOf(next) : '–',
      timeOf(last),
      outcome ?? '–',
      `${money(spent_today)}${limit}`,
      <ForeignText text={`${cron} ${tz}`} class="mono" />,
      <span class="acts">
        <Button text="Run now" onClick={() => act('run')} />
        {state === 'paused' ? (
          <Button text="Resume" onClick={() => act('resume')} />
        ) : (
          <Button text="Pause" onClick={() => act('pause')} />
        )}
      </span>,
    ],
  };
}

export function SchedulesPage() {
  const { answer, again } = useResource<ScheduleList>('schedules');
  const [fault, setFault] = useState<PageFault>();
  const { rows = [], servers = 0 } = answer?.ok ? answer.output : {};
  async function actOn(name: string, verb: string): Promise<void> {
    const done = await post(`schedules/${encodeURIComponent(name)}/${verb}`, {});
    setFault(done.ok ? undefined : done.error);
    again();
  }
  return (
    <main class="page">
      <div class="head">
        <h1>Schedules</h1>
        <div class="acts">
          <Button text="Look again" onClick={again} />
        </div>
      </div>
      {answer === undefined ? <LoadingRows /> : null}
      {answer?.ok === false ? <ErrorState error={answer.error} again={again} /> : null}
      {fault ? <ErrorState error={fault} /> : null}
      {answer?.ok && rows.length === 0 ? (
        <EmptyState title="No schedules" hint="Add one with your key:" command={ADD} />
      ) : null}
      {rows.length > 0 && servers === 0 ? (
        <p class="you">
          No server fires them. Start <code>km schedule serve</code>.
        </p>
      ) : null}
      {rows.length > 0 ? (
        <section class="card cost-table" aria-label="Schedules">
          <div class="wide-table">
            <Table
              class="plain"
              columns={COLUMNS.map((name) => [name])}
              rows={rows.map((row) => scheduleRow(row, (verb) => void actOn(row.name, verb)))}
            />
          </div>
        </section>
      ) : null}
    </main>
  );
}
