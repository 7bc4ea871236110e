import { readFileSync } from 'node:fs';
import { fail } from '../../base/index.ts';
import type { ScriptEffect } from '../../script/index.ts';
import { confirm } from '../ask.ts';
import { asList, asText, type CommandCall, type CommandRun, EXIT } from '../command.ts';
import { printed, runScriptJob, type ScriptJob } from '../script-run.ts';
import { parseParameters } from './exec.ts';

/** Read when the script first asks for `@input`; a person at the terminal is not waited for. */
function readStdin(): string {
  if (process.stdin.isTTY) return '';
  try {
    return readFileSync(0, 'utf8');
  } catch {
    return '';
  }
}

function jobOf({ args, options, terminal }: CommandCall, payload: ScriptJob['payload']): ScriptJob {
  const project = asText(options.project);
  return {
    file: asText(args[0]),
    text: asText(options.eval),
    cwd: terminal.cwd,
    env: terminal.env,
    payload,
    stdin: readStdin,
    onEffect: () => {},
    ...(terminal.isInteractive ? { ask: (question) => confirm(terminal, question) } : {}),
    ...(project === undefined ? {} : { project }),
  };
}

/** `--json`: the list of effects and how it ended, in one document. */
async function runForMachines(call: CommandCall, job: ScriptJob): Promise<number> {
  const effects: ScriptEffect[] = [];
  const end = await runScriptJob({ ...job, onEffect: (effect) => effects.push(effect) });
  const { code, fault, outputs } = end;
  const outcome = fault ? { ok: false, error: fault } : { ok: true, output: outputs };
  call.terminal.out(JSON.stringify({ effects, outcome, exit_code: code }));
  return code;
}

async function runForPeople(call: CommandCall, job: ScriptJob): Promise<number> {
  const end = await runScriptJob({
    ...job,
    onEffect(effect) {
      const line = printed(effect);
      if (line) (line.stream === 'out' ? process.stdout : process.stderr).write(line.text);
    },
  });
  for (const problem of end.problems) call.terminal.note(problem);
  return end.code;
}

export const run: CommandRun = async (call) => {
  const { options, terminal } = call;
  if (options.worker === true) {
    const { runWorker } = await import('../script-worker.ts');
    return await runWorker(terminal.env);
  }
  const payload = parseParameters(asList(options.payload));
  if (!payload.ok) return terminal.finish(payload, () => {});
  const job = jobOf(call, payload.output);
  if (job.file === undefined && job.text === undefined) {
    return terminal.finish(fail('usage', 'give a file, or a text with `-e`'), () => {});
  }
  const controller = new AbortController();
  const stop = () => controller.abort();
  process.once('SIGINT', stop);
  try {
    const interruptible = { ...job, signal: controller.signal };
    const code = await (terminal.json ? runForMachines : runForPeople)(call, interruptible);
    return controller.signal.aborted ? EXIT.interrupted : code;
  } finally {
    process.off('SIGINT', stop);
  }
};
