// `script --worker`: one job a line on stdin, one answer a line on stdout, until stdin ends. Each job
// runs as if it were a process of its own.
import { createInterface } from 'node:readline';
import { isObject, parseJson } from '../base/index.ts';
import { EXIT } from './command.ts';
import { printed, runScriptJob } from './script-run.ts';

interface Job {
  readonly id: unknown;
  readonly work: string;
  readonly file: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

function readJob(line: string): Job | string {
  const parsed = parseJson(line);
  if (!parsed.ok || !isObject(parsed.output)) return 'a job is one JSON object a line';
  const { id, work, file } = parsed.output;
  if (typeof work !== 'string' || typeof file !== 'string') return 'a job needs `work` and `file`';
  return { id, work, file };
}

async function answer({ work, file }: Job, env: Environment) {
  const text = { out: '', err: '' };
  const end = await runScriptJob({
    file,
    text: undefined,
    cwd: work,
    env,
    payload: {},
    stdin: () => '',
    onEffect(effect) {
      const line = printed(effect);
      if (line) text[line.stream] += line.text;
    },
  });
  return { code: end.code, out: text.out, err: [text.err, ...end.problems].join('') };
}

async function handle(line: string, env: Environment): Promise<string> {
  const job = readJob(line);
  if (typeof job === 'string')
    return JSON.stringify({ id: null, code: EXIT.usage, out: '', err: job });
  try {
    return JSON.stringify({ id: job.id, ...(await answer(job, env)) });
  } catch (error) {
    return JSON.stringify({ id: job.id, code: EXIT.failed, out: '', err: String(error) });
  }
}

export async function runWorker(env: Environment): Promise<number> {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() !== '') process.stdout.write(`${await handle(line, env)}\n`);
  }
  return EXIT.done;
}
