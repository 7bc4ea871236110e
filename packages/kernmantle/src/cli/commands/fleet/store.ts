// Implements `store migrate|restored|check|limits` for a registry on a server. `migrate` creates
// and updates its tables, once before new programs are installed. Limits for all machines together
// are rows of the registry.
import { compact, EXIT, fail, type Outcome, ok } from '@kernmantle/core/base';
import { noted, personAuditRow, type Runtime } from '@kernmantle/core/runtime';
import type {
  Fleet,
  FleetContents,
  QueueRow,
  SharedLimit,
  WorkerRow,
} from '@kernmantle/core/store';
import { asText, type CommandCall, type CommandRun, type Ending } from '../../command.ts';
import { commandActor, inProject } from '../../project.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';

const NO_SERVER = fail('usage', 'no server store is configured', {
  hint: 'use `--store postgres://user@host:5432/database`, or set `KERNMANTLE_STORE`',
});

/** Wraps a command over a server. It fails if the registry is a file. */
const onServer = (
  work: (runtime: Runtime, place: string, call: CommandCall) => Promise<Ending>,
): CommandRun =>
  inProject(async (runtime, call) => {
    const { place } = runtime.registry;
    return place === undefined ? NO_SERVER : await work(runtime, place, call);
  });

export const migrateTables = onServer(async (runtime, place, call) => {
  const { terminal } = call;
  const row = personAuditRow(commandActor(call), 'store:migrate', place);
  const done = noted(runtime, row, await runtime.registry.migrate());
  return terminal.finish(done.ok ? ok({ place, ...done.output }) : done, ({ from, to }) => {
    if (from === to) terminal.out(visible(`${place} is up to date (schema ${to})`));
    else if (from === 0) terminal.out(visible(`created the tables in ${place} (schema ${to})`));
    else terminal.out(visible(`upgraded ${place} from schema ${from} to ${to}`));
  });
});

export const restoredTables = onServer(async (runtime, place, call) => {
  const { terminal } = call;
  const row = personAuditRow(commandActor(call), 'store:restored', place);
  const done = noted(runtime, row, await runtime.registry.restored());
  return terminal.finish(done.ok ? ok({ place, ...done.output }) : done, (contents) => {
    const { threads, interrupted, queued, until } = contents;
    terminal.out(
      visible(
        `${place}: ${threads} threads released; ${interrupted} were running, ${queued} are queued`,
      ),
    );
    const last = until === 0 ? 'nothing' : new Date(until).toISOString();
    terminal.note(`its last event is of ${last}; later events are lost`);
  });
});

interface StoreState extends FleetContents {
  place: string;
  workers: WorkerRow[];
  queues: QueueRow[];
}

const unserved = ({ queues }: StoreState): QueueRow[] =>
  queues.filter(({ ready, later, served_by }) => ready + later > 0 && served_by === 0);

function showState(state: StoreState, terminal: Terminal): void {
  const { workers, queues, place } = state;
  terminal.out(
    visible(`${place} is ready: its tables have the current schema and belong to your key`),
  );
  const { server, form, journal, queue, threads } = state;
  terminal.out(
    visible(`PostgreSQL ${server}; tables of schema ${form}, journal ${journal}, queue ${queue}`),
  );
  const counts = threads.map(({ status, count }) => `${count} ${status}`);
  terminal.out(`threads: ${counts.join(', ') || 'none'}`);
  for (const { id, host, busy, slots, draining, version } of workers) {
    const rest = draining ? ', drains' : '';
    terminal.out(visible(`worker ${id} on ${host}: ${busy} of ${slots} busy${rest} (${version})`));
  }
  if (workers.length === 0) terminal.note('no worker is running; start one with `km worker`');
  for (const { project, tenant, ready, later } of queues) {
    const whose = tenant === '' ? '' : ` of ${tenant}`;
    terminal.out(visible(`queue ${project}${whose}: ${ready} ready, ${later} later`));
  }
  for (const { project, items } of unserved(state)) {
    const which = `${visible(project)} with items ${visible(items.slice(0, 19))}`;
    terminal.note(`${terminal.paint('yellow', 'warning')}: no worker serves ${which}`);
  }
}

async function stateOf(fleet: Fleet, place: string): Promise<Outcome<StoreState>> {
  const workers = await fleet.workers();
  if (!workers.ok) return workers;
  const queues = await fleet.queues();
  if (!queues.ok) return queues;
  const has = await fleet.contents();
  if (!has.ok) return has;
  return ok({ place, ...has.output, workers: workers.output, queues: queues.output });
}

async function fleetOf(runtime: Runtime): Promise<Outcome<Fleet>> {
  const opened = await runtime.registry.open();
  if (!opened.ok) return opened;
  const { fleet } = opened.output;
  return fleet ? ok(fleet) : NO_SERVER;
}

export const checkTables = onServer(async (runtime, place, { terminal }) => {
  const fleet = await fleetOf(runtime);
  const state = fleet.ok ? await stateOf(fleet.output, place) : fleet;
  return terminal.finish(state, (contents) => showState(contents, terminal));
});

/** Limits by option. Money is written as a decimal number. */
const COUNTS = {
  concurrent: 'concurrent',
  requestsPerMinute: 'requests_per_minute',
  tokensPerMinute: 'tokens_per_minute',
} as const;
const SCOPE = /^(provider|tenant):[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

async function limitOf(
  scope: string,
  options: CommandCall['options'],
): Promise<Outcome<SharedLimit>> {
  if (!SCOPE.test(scope)) {
    return fail('usage', `\`${scope}\` must be \`provider:NAME\` or \`tenant:NAME\``);
  }
  const limit: SharedLimit = { scope };
  for (const [option, name] of Object.entries(COUNTS)) {
    const text = asText(options[option]);
    if (text === undefined) continue;
    if (!/^[1-9]\d{0,11}$/.test(text)) {
      return fail('usage', `\`--${name.replaceAll('_', '-')} ${text}\` must be a whole number`);
    }
    limit[name] = Number(text);
  }
  const spend = asText(options.spendPerDay);
  if (spend !== undefined) {
    const { parseMoney } = await import('@kernmantle/core/llm');
    const amount = /^\d+(\.\d{1,9})?$/.test(spend) ? parseMoney(spend) : undefined;
    if (!amount?.ok) {
      return fail('usage', `\`--spend-per-day ${spend}\` must be an amount such as 20.00`);
    }
    limit.spend_per_day = amount.output;
  }
  const hasAny = Object.keys(limit).length > 1;
  if (hasAny === (options.none === true)) {
    return fail('usage', 'set at least one limit, or remove all with `--none`');
  }
  return ok(limit);
}

type ShownLimit = Omit<SharedLimit, 'spend_per_day'> & { spend_per_day?: string };

async function shownLimits(limits: readonly SharedLimit[]): Promise<ShownLimit[]> {
  const { formatMoney } = await import('@kernmantle/core/llm');
  return limits.map(({ spend_per_day: spend, ...rest }) =>
    compact<ShownLimit>({
      ...rest,
      spend_per_day: spend === undefined ? spend : formatMoney(spend),
    }),
  );
}

export const sharedLimits = onServer(async (runtime, _place, call) => {
  const { args, options, terminal } = call;
  const scope = asText(args[0]);
  const request = scope === undefined ? undefined : await limitOf(scope, options);
  if (request && !request.ok) return request;
  const fleet = await fleetOf(runtime);
  if (!fleet.ok) return fleet;
  if (request) {
    const [change] = await shownLimits([request.output]);
    const row = personAuditRow(
      commandActor(call),
      'store:limits',
      scope ?? '',
      JSON.stringify(change),
    );
    const set = noted(runtime, row, await fleet.output.setLimit(request.output));
    if (!set.ok) return set;
  }
  const limits = await fleet.output.limits();
  if (!limits.ok) return limits;
  const entries = await shownLimits(limits.output);
  terminal.finish(ok(entries), () => {
    for (const { scope: whose, ...figures } of entries) {
      const words = Object.entries(figures).map(
        ([name, value]) => `${name.replaceAll('_', ' ')} ${value}`,
      );
      terminal.out(visible(`${whose.padEnd(20)} ${words.join(', ')}`));
    }
    if (entries.length === 0) terminal.note('no shared limits');
  });
  return EXIT.done;
});
