// View of the fleet: workers with their projects, queues, leases, and shared limits. Names of hosts,
// tenants and projects are untrusted.
import type { FleetLimit, FleetState, FleetWorker } from '../../model/api.ts';
import {
  clockWords,
  fleetSums,
  projectWords,
  SERVE_IT,
  servesWords,
  shortItems,
  waitWords,
  workerMood,
  workerName,
} from '../../model/fleet.ts';
import { bytes, count, counted, money, seconds } from '../../model/format.ts';
import { visibleText } from '../../model/untrusted-text.ts';
import { Command } from '../parts/copy.tsx';
import { MeterBar } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../parts/states.tsx';
import { StatusPill, toneIcon } from '../parts/status.tsx';
import { Table, type TableRow } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link, pathOf } from '../router.tsx';
import { useFleet } from '../state/fleet.ts';
import { me } from '../state/session.ts';

/** Formats the time between two readings of the same clock. */
const since = (from: number, to: number): string =>
  seconds(Math.max(0, Math.round((to - from) / 1000)));

/** A table that becomes a list of lines on a phone. */
function FleetTable(props: {
  title: string;
  note?: string;
  columns: readonly string[];
  empty: string;
  rows: readonly TableRow[];
}) {
  const { title, note, columns, empty, rows } = props;
  return (
    <section class="card cost-table fleet-table" aria-label={title}>
      <h2>
        {title} {note === undefined ? null : <small>{note}</small>}
      </h2>
      {rows.length === 0 ? (
        <p class="dim">{empty}</p>
      ) : (
        <div class="wide-table">
          <Table class="plain" columns={columns.map((name) => [name])} rows={rows} />
        </div>
      )}
    </section>
  );
}

const Slots = ({ worker: { busy, slots } }: { worker: FleetWorker }) => (
  <span class="slots">
    {count(busy)} of {count(slots)}
    <MeterBar meter={{ name: 'slots', used: busy, reserved: 0, max: slots }} />
  </span>
);

const WORKER_COLUMNS = 'worker,state,serves,busy,memory,clock,last heartbeat,up,version'.split(',');

function WorkersTable({ fleet, clock }: { fleet: FleetState; clock: number }) {
  const rows = fleet.workers.map((worker) => {
    const [mood, tone] = workerMood(worker, clock);
    const off = clockWords(worker);
    return {
      key: worker.id,
      cells: [
        <span class="who" title={visibleText(worker.id, 160)}>
          <span class={tone}>
            <Icon name={toneIcon(tone)} />
          </span>
          <ForeignText text={worker.host} class="cut" />
          <span class="faint">{/:(\d+)/.exec(worker.id)?.[1] ?? ''}</span>
        </span>,
        <span class={tone}>{mood}</span>,
        <ForeignText text={servesWords(worker, fleet.own)} />,
        worker.gone ? '–' : <Slots worker={worker} />,
        bytes(worker.memory),
        off === '' ? 'correct' : <span class="you">{off}</span>,
        <span class={worker.gone ? 'bad' : ''}>{since(worker.heartbeat, clock)} ago</span>,
        worker.gone ? '–' : since(worker.started, clock),
        <ForeignText text={worker.version} class="mono" />,
      ],
    };
  });
  return (
    <FleetTable
      title="Workers"
      columns={WORKER_COLUMNS}
      empty="No worker is running, so queued threads wait. Start `km worker` on a machine that has the project."
      rows={rows}
    />
  );
}

function QueuesTable({ fleet, clock }: { fleet: FleetState; clock: number }) {
  const rows = fleet.queues.map((queue) => {
    const { tenant, project, items, served_by } = queue;
    return {
      key: JSON.stringify([tenant, project, items]),
      cells: [
        <ForeignText text={projectWords(project, items, fleet.own)} />,
        <ForeignText text={tenant === '' ? '–' : tenant} />,
        <code title={visibleText(items, 160)}>{visibleText(shortItems(items), 20)}</code>,
        waitWords(queue, clock),
        served_by > 0 ? (
          counted(served_by, 'worker')
        ) : (
          <span class="you">
            <Icon name="warn" /> none: {SERVE_IT.replaceAll('`', '')}
          </span>
        ),
      ],
    };
  });
  return (
    <FleetTable
      title="Queues"
      columns={['project', 'tenant', 'items', 'waits', 'served by']}
      empty="Nothing is queued."
      rows={rows}
    />
  );
}

function HeldTable({ fleet, clock }: { fleet: FleetState; clock: number }) {
  const lost = new Set(fleet.workers.filter(({ gone }) => gone).map(({ id }) => id));
  const rows = fleet.held.map(({ thread, directive, status, worker, lease_until }) => ({
    key: thread,
    cells: [
      <Link to={pathOf('t', thread)} class="to">
        <ForeignText text={thread} class="mono" />
      </Link>,
      <ForeignText text={directive} />,
      <StatusPill status={status} />,
      <span class={lost.has(worker) ? 'bad' : ''} title={visibleText(worker, 160)}>
        <ForeignText text={workerName(worker)} />
      </span>,
      lease_until > clock ? (
        `${since(clock, lease_until)} left`
      ) : (
        <span class="you">expired; another worker takes the thread</span>
      ),
    ],
  }));
  return (
    <FleetTable
      title="Leases"
      note="threads of this project; leases are renewed every few seconds"
      columns={['thread', 'directive', 'state', 'worker', 'lease']}
      empty="No thread has a lease now."
      rows={rows}
    />
  );
}

const figure = (value: number | undefined): string => (value === undefined ? '–' : count(value));

function LimitsTable({ limits }: { limits: readonly FleetLimit[] }) {
  const currency = me.value?.currency ?? '';
  if (limits.length === 0) return null;
  return (
    <FleetTable
      title="Limits"
      note="over all machines"
      columns={['scope', 'at once', 'requests/min', 'tokens/min', `${currency} a day`]}
      empty=""
      rows={limits.map((limit) => ({
        key: limit.scope,
        cells: [
          <ForeignText text={limit.scope} />,
          figure(limit.concurrent),
          figure(limit.requests_per_minute),
          figure(limit.tokens_per_minute),
          limit.spend_per_day === undefined ? '–' : money(limit.spend_per_day),
        ],
      }))}
    />
  );
}

function Sums({ fleet }: { fleet: FleetState }) {
  const { workers, gone, slots, busy, queued, unserved } = fleetSums(fleet);
  return (
    <span class="sums" role="status">
      <span class={workers === 0 ? 'you' : 'dim'}>
        <b>{count(workers)}</b> {workers === 1 ? 'worker' : 'workers'}
      </span>
      {gone > 0 ? (
        <span class="bad">
          <b class="bad">{count(gone)}</b> gone
        </span>
      ) : null}
      <span class="dim">
        <b>{count(busy)}</b> of {count(slots)} slots busy
      </span>
      <span class="dim">
        <b>{count(queued)}</b> queued
      </span>
      {unserved > 0 ? (
        <span class="you">
          <b class="you">{count(unserved)}</b> without a worker
        </span>
      ) : null}
    </span>
  );
}

export function FleetPage() {
  const { state, error, clock, again } = useFleet();
  const isShared = me.value?.fleet === true;
  return (
    <main class="scroll-page fleet">
      <header class="head">
        <div class="title flex">
          <h1>Fleet</h1>
          {state ? <Sums fleet={state} /> : null}
        </div>
        <Command text="km threads top" />
      </header>
      {isShared ? null : (
        <EmptyState
          title="This project has no fleet"
          hint="Its store is a file: a thread runs in the process that starts it. A worker needs a store on a server."
          command="km worker --store postgres://…"
        />
      )}
      {error ? <ErrorState error={error} again={again} command="km doctor" /> : null}
      {isShared && !state && !error ? <LoadingRows rows={8} /> : null}
      {state ? (
        <>
          <WorkersTable fleet={state} clock={clock} />
          <QueuesTable fleet={state} clock={clock} />
          <HeldTable fleet={state} clock={clock} />
          <LimitsTable limits={state.limits} />
          <p class="faint">
            <ForeignText text={state.place} class="mono" />
          </p>
        </>
      ) : null}
    </main>
  );
}
