// What a tool's process prints while it runs: a line is a log message, a line such as
// `{"progress": 50, "total": 100}` says how far it is. Nothing of it is the tool's answer.
import type { ServerContext } from '@modelcontextprotocol/server';
import { getOwn, isObject, type JsonObject, parseJson } from '../../base/index.ts';

const MAX_LINE = 16_384;
const MAX_LINES = 5000;

function progressIn(line: string): JsonObject | undefined {
  if (!line.startsWith('{')) return undefined;
  const parsed = parseJson(line);
  const said = parsed.ok && isObject(parsed.output) ? parsed.output : undefined;
  return typeof said?.progress === 'number' ? said : undefined;
}

export function createOutputLines({ mcpReq }: ServerContext, logger: string) {
  let rest = '';
  let count = 0;
  // In order, and all of them before the answer.
  let sent: Promise<unknown> = Promise.resolve();
  const send = (work: () => Promise<void>): void => {
    // Whoever is gone does not miss it.
    sent = sent.then(work).catch(() => undefined);
  };

  function progress(said: JsonObject): void {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return;
    const [total, message] = [getOwn(said, 'total'), getOwn(said, 'message')];
    const params = {
      progressToken,
      progress: said.progress,
      ...(typeof total === 'number' && { total }),
      ...(typeof message === 'string' && { message }),
    };
    send(() => mcpReq.notify({ method: 'notifications/progress', params }));
  }

  function line(text: string): void {
    if (text.trim() === '') return;
    count += 1;
    if (count > MAX_LINES) return;
    const said = progressIn(text);
    if (said) return progress(said);
    const isLast = count === MAX_LINES;
    const data = isLast ? 'what is printed from here on is not passed on' : text.slice(0, MAX_LINE);
    send(() => mcpReq.log(isLast ? 'warning' : 'info', data, logger));
  }

  return {
    /** Never throws. */
    onOutput(text: string): void {
      const lines = `${rest}${text}`.split('\n');
      rest = (lines.pop() ?? '').slice(0, MAX_LINE);
      for (const one of lines) line(one.replace(/\r$/, ''));
    },
    /** Everything that was printed has been sent. */
    async end(): Promise<void> {
      line(rest);
      rest = '';
      await sent;
    },
  };
}
