// What a client sees while a tool runs: each printed line is a log message, a printed line of JSON with
// `progress` tells how far it is.
import { setTimeout as wait } from 'node:timers/promises';

const text = (words) => ({ content: [{ type: 'text', text: words }] });

export async function logging() {
  console.log('Tool execution started');
  await wait(50);
  console.log('Tool processing data');
  await wait(50);
  console.log('Tool execution completed');
  return text('Said three things.');
}

export async function progress() {
  for (const percent of [0, 50, 100]) {
    console.log(JSON.stringify({ progress: percent, total: 100 }));
    await wait(50);
  }
  return text('All done.');
}

export function failing() {
  throw new Error('This tool intentionally returns an error for testing');
}
