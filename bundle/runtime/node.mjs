// Runs one module of a tool. stdin: JSON `{parameters, config}`, or for a sink one line with the
// config and then one event per line. The answer goes to a separate descriptor, because
// stdout contains the text that the module prints.
import { readFileSync, writeSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [file, name, mode, descriptor, environment] = process.argv.slice(2);

function send(text) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) at += writeSync(Number(descriptor), bytes, at);
}

/** The packages that the tool declares are in a separate folder, not beside the module. */
function useEnvironment(folder) {
  const parentURL = pathToFileURL(`${folder}/package.json`).href;
  nodeModule.registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        if (error?.code !== 'ERR_MODULE_NOT_FOUND' || /^[./]|^\w+:/.test(specifier)) throw error;
        return next(specifier, { ...context, parentURL });
      }
    },
  });
}

const describe = (error) => ({
  code: typeof error?.code === 'string' && /^[a-z][a-z_]*$/.test(error.code) ? error.code : 'tool_failed',
  detail: { message: String(error?.message ?? error), stack: String(error?.stack ?? '').slice(0, 4000) },
});

const isOutcome = (value) =>
  typeof value === 'object' && value !== null &&
  ((value.ok === true && 'output' in value) || (value.ok === false && typeof value.error?.code === 'string'));

function functionOf(module, names) {
  for (const candidate of names) {
    const found = module[candidate] ?? module.default?.[candidate];
    if (typeof found === 'function') return found;
  }
  if (name === '' && typeof module.default === 'function') return module.default;
  throw new Error(`the module exports no function \`${names.join('` or `')}\``);
}

async function call() {
  const { parameters, config } = JSON.parse(readFileSync(0, 'utf8'));
  const module = await import(pathToFileURL(file).href);
  const value = await functionOf(module, name === '' ? ['run', 'execute'] : [name])(parameters, config);
  return isOutcome(value) ? value : { ok: true, output: value ?? null };
}

/** One `+` for every event that was handled, one `-` for every one that failed. */
async function sink() {
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity })[Symbol.asyncIterator]();
  const { config } = JSON.parse((await lines.next()).value);
  const module = await import(pathToFileURL(file).href);
  const made = module.createSink ? await module.createSink(config) : module;
  const write = functionOf(made, name === '' ? ['write', 'run', 'execute'] : [name]);
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    try {
      await write.call(made, JSON.parse(line.value), config);
      send('+');
    } catch (error) {
      console.error(error);
      send('-');
    }
  }
  await made.close?.();
}

if (environment) useEnvironment(environment);
if (mode === 'sink') {
  try {
    await sink();
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  }
} else {
  let outcome;
  try {
    outcome = await call();
  } catch (error) {
    outcome = { ok: false, error: describe(error) };
  }
  let text;
  try {
    text = JSON.stringify(outcome);
  } catch (error) {
    text = JSON.stringify({ ok: false, error: describe(error) });
  }
  send(text);
}
// Open timers and servers of the module must not keep the process alive.
process.exit();
