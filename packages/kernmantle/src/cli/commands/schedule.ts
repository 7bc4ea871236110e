// Implements `km schedule`: people add, list, pause and remove schedules. `serve` is in `fleet/worker.ts`.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import {
  openSchedules,
  type ProjectSchedules,
  type Runtime,
  type ScheduleRequest,
} from '@kernmantle/core/runtime';
import { asList, asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { parseParameters, textsOf } from './exec.ts';
import { limitsOf } from './run.ts';
import { parseAge } from './threads/prune.ts';

const scheduleCommand = (
  work: (schedules: ProjectSchedules, call: CommandCall, runtime: Runtime) => Promise<Ending>,
): CommandRun =>
  inProject(async (runtime, call) => await work(await openSchedules(runtime), call, runtime));

type ListedSchedule = Extract<
  Awaited<ReturnType<ProjectSchedules['list']>>,
  { ok: true }
>['output'][number];

const minuteOf = (time: string): string => time.slice(0, 16).replace('T', ' ');

function scheduleLine(schedule: ListedSchedule, { paint }: Terminal): string {
  const { name, state, next, last = '', outcome = '-', spent_today, spend_per_day } = schedule;
  const { cron = '', tz = '', directive = '' } = schedule;
  const colours = { active: 'green', paused: 'yellow', broken: 'red' } as const;
  const spend = spend_per_day === undefined ? spent_today : `${spent_today} of ${spend_per_day}`;
  return [
    paint(colours[state], state.padEnd(7)),
    visible(name).padEnd(16),
    (state === 'active' ? minuteOf(next) : '-').padEnd(16),
    minuteOf(last).padEnd(16),
    outcome.padEnd(8),
    spend.padEnd(13),
    visible(`${directive}  ${cron} ${tz}`),
  ].join(' ');
}

const HEAD = `state   ${'name'.padEnd(16)} ${'next (UTC)'.padEnd(16)} ${'last'.padEnd(16)} outcome  ${'spent today'.padEnd(13)} directive  pattern`;

/** Tells a person if no process fires the schedules. */
async function noteServer(schedules: ProjectSchedules, { note, json }: Terminal): Promise<void> {
  const servers = json ? undefined : await schedules.servers();
  if (servers?.ok && servers.output.length === 0) {
    note('no server fires it; start `km schedule serve`, or `km worker` with a server store');
  }
}

const TEXTS = ['tz', 'missed', 'overlap', 'model'] as const;

function requestOf({ args, options }: CommandCall, runtime: Runtime): Outcome<ScheduleRequest> {
  const [name = '', directive = ''] = args.slice(0, 2).map(asText);
  const cron = asText(options.cron);
  if (cron === undefined) {
    return fail('usage', '`--cron` is missing, such as `--cron "15 3 * * *"`');
  }
  const isText = textsOf(runtime.library, 'directive', directive, {});
  const inputs = parseParameters(asList(args[2]), isText);
  if (!inputs.ok) return inputs;
  const limits = limitsOf(options);
  if (!limits.ok) return limits;
  const grace = parseAge('grace', asText(options.grace) ?? '24h');
  if (!grace.ok) return grace;
  const texts = Object.fromEntries(TEXTS.map((option) => [option, asText(options[option])]));
  const more = { ...texts, spend_per_day: asText(options.spendPerDay), limits: limits.output };
  const request = { name, directive, cron, inputs: inputs.output, grace_ms: grace.output };
  return ok({ ...request, ...compact<object>(more) });
}

export const addSchedule = scheduleCommand(async (schedules, call, runtime) => {
  const { terminal } = call;
  const request = requestOf(call, runtime);
  if (!request.ok) return request;
  const added = await schedules.add(request.output, commandActor(call));
  if (!added.ok) {
    const { code, detail } = added.error;
    return code === 'invalid_input' ? fail('usage', detail.message) : added;
  }
  const item = runtime.library.find('directive', request.output.directive);
  const { shownTools } = await import('./check.ts');
  const [stranger] = item.ok ? shownTools(runtime, item.output).outside : [];
  if (stranger) {
    terminal.note(
      `warning: the model reads untrusted results of \`${stranger.id}\`; for unattended work use \`<permissions untrusted="reference">\``,
    );
  }
  for (const text of added.output.notes) terminal.note(`note: ${text}`);
  await noteServer(schedules, terminal);
  return terminal.finish(added, ({ schedule: { name, next, tz } }) =>
    terminal.out(`schedule ${name} added; first run at ${minuteOf(next)} UTC (zone ${tz})`),
  );
});

export const listSchedules = scheduleCommand(async (schedules, { terminal }) =>
  terminal.finish(await schedules.list(), (all) => {
    if (all.length === 0) return terminal.note('no schedules in this project');
    terminal.out(terminal.paint('dim', HEAD));
    for (const schedule of all) terminal.out(scheduleLine(schedule, terminal));
  }),
);

const nameOf = ({ args }: CommandCall): string => asText(args[0]) ?? '';

export const showSchedule = scheduleCommand(async (schedules, call) => {
  const { terminal } = call;
  return terminal.finish(await schedules.show(nameOf(call)), ({ fires, ...schedule }) => {
    terminal.out(scheduleLine(schedule, terminal));
    for (const [name, value] of Object.entries(schedule)) {
      const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
      if (text !== '') terminal.out(`  ${name.padEnd(13)} ${visible(text)}`);
    }
    for (const { tick, outcome, status, thread, spend, reason: why } of fires) {
      const rest = thread === undefined ? why : `${status ?? 'pruned'} ${spend} ${thread}`;
      terminal.out(`  ${minuteOf(tick)}  ${outcome.padEnd(8)} ${visible(rest)}`);
    }
  });
});

const actOn = (verb: 'pause' | 'resume' | 'remove', past: string): CommandRun =>
  scheduleCommand(async (schedules, call) =>
    call.terminal.finish(await schedules[verb](nameOf(call), commandActor(call)), ({ name }) =>
      call.terminal.note(`schedule ${name} ${past}`),
    ),
  );

export const pauseSchedule = actOn('pause', 'paused');
export const resumeSchedule = actOn('resume', 'resumed');
export const removeSchedule = actOn('remove', 'removed; a run that has started goes on');

export const runNow = scheduleCommand(async (schedules, call) => {
  const { terminal } = call;
  const fired = await schedules.run(nameOf(call), commandActor(call));
  if (fired.ok) await noteServer(schedules, terminal);
  return terminal.finish(fired, ({ thread_id }) => {
    terminal.out(thread_id);
    terminal.note(`queued; follow it with \`km threads tail ${thread_id}\``);
  });
});
