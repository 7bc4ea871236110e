import { getOwn, isObject, type Json, plainText } from '../../base/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { explain } from '../explain.ts';
import { withRuntime } from '../project.ts';
import { type Terminal, visible } from '../terminal.ts';

const plain = (value: Json): string =>
  visible(typeof value === 'string' ? value : JSON.stringify(value));

/** Nested values as an indented outline: names left, values right. */
function outline(value: Json, terminal: Terminal, indent = ''): void {
  if (!isObject(value)) return terminal.out(`${indent}${plain(value)}`);
  for (const [name, part] of Object.entries(value)) {
    if (name === 'limits' || name === 'permissions') continue;
    if (part === null || (Array.isArray(part) && part.length === 0)) continue;
    const label = terminal.paint('dim', name.padEnd(17));
    if (isObject(part)) {
      terminal.out(
        `${indent}${label} ${Object.entries(part)
          .map(([key, inner]) => `${key}: ${plain(inner)}`)
          .join(', ')}`,
      );
    } else
      terminal.out(
        `${indent}${label} ${Array.isArray(part) ? part.map(plain).join(', ') : plain(part)}`,
      );
  }
}

function showLimits(limits: Json, terminal: Terminal): void {
  terminal.out(terminal.paint('bold', 'limits'));
  for (const [name, limit] of Object.entries(isObject(limits) ? limits : {})) {
    const from = terminal.paint('dim', plainText(getOwn(limit, 'from')));
    terminal.out(
      `  ${name.padEnd(15)} ${plain(getOwn(limit, 'value') ?? null).padEnd(10)} ${from}`,
    );
  }
}

function showGrants(permissions: Json, terminal: Terminal): void {
  const granted = getOwn(permissions, 'granted');
  terminal.out(terminal.paint('bold', 'may'));
  for (const grant of Array.isArray(granted) ? granted : []) {
    const scope = Object.entries((getOwn(grant, 'scope') ?? {}) as Record<string, Json>);
    const shown = scope.map(([field, glob]) => `${field} ${plain(glob)}`).join(', ');
    const capped = getOwn(grant, 'capped');
    const note = capped ? terminal.paint('red', `  but ${plain(capped)}`) : '';
    terminal.out(`  ${plain(getOwn(grant, 'capability') ?? '').padEnd(15)} ${shown}${note}`);
  }
  if (Array.isArray(granted) && granted.length === 0) terminal.out('  nothing');
}

export const run: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { args, terminal } = call;
    const explained = await explain(asText(args[0]) ?? '', asText(args[1]) ?? '', runtime);
    return terminal.finish(explained, (output) => {
      outline(output, terminal);
      if (getOwn(output, 'limits')) showLimits(getOwn(output, 'limits') ?? null, terminal);
      if (getOwn(output, 'permissions'))
        showGrants(getOwn(output, 'permissions') ?? null, terminal);
    });
  });
